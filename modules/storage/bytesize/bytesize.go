// Package bytesize writes and reads sizes in bytes with units of 1024. It owns nothing.
package bytesize

import (
	"math"
	"strconv"
	"strings"

	"github.com/croft-edge/croft/pkg/node"
)

// The units, in bytes.
const (
	KiB = uint64(1) << 10
	MiB = uint64(1) << 20
	GiB = uint64(1) << 30
	TiB = uint64(1) << 40
)

// Format writes bytes in the largest unit of 1024 that fits, with at most
// one decimal: "10 GiB", "3.5 GiB", "12 bytes". It never rounds up, so that a
// free size shown is a size that can be had.
func Format(bytes uint64) string {
	unit, name := uint64(1), "bytes"
	switch {
	case bytes >= TiB:
		unit, name = TiB, "TiB"
	case bytes >= GiB:
		unit, name = GiB, "GiB"
	case bytes >= MiB:
		unit, name = MiB, "MiB"
	case bytes >= KiB:
		unit, name = KiB, "KiB"
	}
	whole, rest := bytes/unit, bytes%unit
	// rest is below 2^40, so ten times it can't overflow.
	if tenth := rest * 10 / unit; tenth > 0 {
		return strconv.FormatUint(whole, 10) + "." + strconv.FormatUint(tenth, 10) + " " + name
	}
	return strconv.FormatUint(whole, 10) + " " + name
}

// Parse reads a whole number with a unit of 1024: "512MiB", "20 GiB", "1TiB".
// Without a unit it is bytes.
func Parse(text string) (uint64, error) {
	digits := text[:len(text)-len(strings.TrimLeft(text, "0123456789"))]
	unit := strings.TrimSpace(text[len(digits):])
	factor, ok := map[string]uint64{"": 1, "bytes": 1, "KiB": KiB, "MiB": MiB, "GiB": GiB, "TiB": TiB}[unit]
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || !ok {
		return 0, node.Errorf(node.Invalid, "cannot read size %q: must be a whole number with KiB, MiB, GiB or TiB", text)
	}
	if n > math.MaxUint64/factor {
		return 0, node.Errorf(node.Invalid, "cannot read size %q: it is above %d bytes", text, uint64(math.MaxUint64))
	}
	return n * factor, nil
}
