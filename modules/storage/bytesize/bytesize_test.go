package bytesize_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/modules/storage/bytesize"
)

func TestFormatSize(t *testing.T) {
	for bytes, want := range map[uint64]string{
		0: "0 bytes", 1023: "1023 bytes", 1024: "1 KiB", 1536: "1.5 KiB", bytesize.MiB - 1: "1023.9 KiB",
		10 * bytesize.GiB: "10 GiB", 10*bytesize.GiB + 1: "10 GiB", 3*bytesize.GiB + bytesize.GiB/2: "3.5 GiB", 8 * bytesize.TiB: "8 TiB", 2048 * bytesize.TiB: "2048 TiB",
	} {
		if got := bytesize.Format(bytes); got != want {
			t.Errorf("%d bytes are %q, want %q", bytes, got, want)
		}
	}
}

// TestSizesReadBack wants a whole number of a unit to be read as it was written.
func TestSizesReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bytes := rapid.Uint64Range(1, 1023).Draw(t, "n") * rapid.SampledFrom([]uint64{1, bytesize.KiB, bytesize.MiB, bytesize.GiB, bytesize.TiB}).Draw(t, "unit")
		got, err := bytesize.Parse(bytesize.Format(bytes))
		if err != nil || got != bytes {
			t.Fatalf("%s is read as %d (%v), want %d", bytesize.Format(bytes), got, err, bytes)
		}
	})
}
