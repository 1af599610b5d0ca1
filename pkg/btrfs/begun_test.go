package btrfs

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// firstBlocks is the part of a disk with the first tree blocks, made by mkfs.btrfs.
func firstBlocks(t *testing.T) []byte {
	t.Helper()
	image := filepath.Join(t.TempDir(), "image")
	check(t, os.WriteFile(image, nil, 0o600))
	check(t, os.Truncate(image, 256<<20))
	if out, err := exec.CommandContext(t.Context(), "mkfs.btrfs", "-q", "--mixed", "-m", "single", "-d", "single", image).CombinedOutput(); err != nil {
		t.Fatalf("cannot make a btrfs: %v: %s", err, out)
	}
	f, err := os.Open(image)
	check(t, err)
	defer f.Close()
	b := make([]byte, FirstSize)
	_, err = f.ReadAt(b, FirstOffset)
	check(t, err)
	return b
}

func TestBegun(t *testing.T) {
	const sector = 512
	made := firstBlocks(t)
	// The second block is written once, and stays where it is.
	header := made[blockSize : blockSize+sector]
	with := func(at int, b []byte) []byte {
		disk := make([]byte, FirstOffset+2*FirstSize)
		copy(disk[at:], b)
		return disk
	}
	changed := func(at int) []byte {
		b := slices.Clone(header)
		b[at]++
		return b
	}
	const second = FirstOffset + blockSize
	for name, c := range map[string]struct {
		disk []byte
		want bool
	}{
		"all of them":             {with(FirstOffset, made), true},
		"one block":               {with(second, made[blockSize:2*blockSize]), true},
		"a header":                {with(second, header), true},
		"a header and other data": {with(second, append(slices.Clone(header), bytes.Repeat([]byte{7}, FirstSize)...)), true},
		"a damaged block":         {with(second, changed(0)), true},
		"on a short disk":         {with(FirstOffset, made)[:FirstOffset+3*blockSize], true},
		"cut off":                 {with(second, header)[:second+sector], false},
		"no header":               {with(second+sector, made[blockSize+sector:2*blockSize]), false},
		"elsewhere":               {with(second+blockSize, header), false},
		"behind them":             {with(second+FirstSize, header), false},
		"at another offset":       {with(second+sector, header), false},
		"of another generation":   {with(second, changed(headerGeneration)), false},
		"a high generation":       {with(second, changed(headerGeneration+7)), false},
		"of another level":        {with(second, changed(headerLevel)), false},
		"zeros":                   {with(0, nil), false},
		"ones":                    {bytes.Repeat([]byte{255}, FirstOffset+2*FirstSize), false},
		"a tiny disk":             {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := Begun(bytes.NewReader(c.disk)); got != c.want || err != nil {
				t.Errorf("it is %v, %v, want %v", got, err, c.want)
			}
		})
	}
	if _, err := Begun(failing{}); !errors.Is(err, unix.EIO) {
		t.Errorf("a disk that can't be read gives %v", err)
	}
}

type failing struct{}

func (failing) ReadAt([]byte, int64) (int, error) { return 0, unix.EIO }
