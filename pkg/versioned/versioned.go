// Package versioned puts a version in front of a file's bytes: the JSON string
// of a semantic version, quotes included, followed directly by the body. Seed files
// and stored reservations begin so. It holds pure functions only.
package versioned

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pkg/errors"
)

// maxHeader bounds the header that Split looks for, in bytes.
const maxHeader = 64

// Version is a semantic version without pre-release or build. The zero
// Version is that of a file without a header.
type Version struct {
	Major, Minor, Patch uint64
}

// String is "major.minor.patch".
func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch) }

// Parse reads "major.minor.patch", three decimal numbers without sign or leading zeros.
func Parse(text string) (Version, error) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return Version{}, errors.Errorf("cannot read version %q: it must be three numbers with dots", text)
	}
	var n [3]uint64
	for i, p := range parts {
		v, err := strconv.ParseUint(p, 10, 64)
		if err != nil || strconv.FormatUint(v, 10) != p {
			return Version{}, errors.Errorf("cannot read version %q: %q isn't a decimal number", text, p)
		}
		n[i] = v
	}
	return Version{Major: n[0], Minor: n[1], Patch: n[2]}, nil
}

// Join returns the header of v followed by body.
func Join(v Version, body []byte) []byte {
	out := make([]byte, 0, len(body)+maxHeader)
	out = append(out, '"')
	out = append(out, v.String()...)
	out = append(out, '"')
	return append(out, body...)
}

// Split returns the version and the body of data. Data without a header is
// all body, of version 0.0.0: raw bytes that happen to begin with a quote are
// not taken for one. The body shares data's memory.
func Split(data []byte) (Version, []byte) {
	if len(data) == 0 || data[0] != '"' {
		return Version{}, data
	}
	for i := 1; i < len(data) && i < maxHeader; i++ {
		if data[i] != '"' {
			continue
		}
		v, err := Parse(string(data[1:i]))
		if err != nil {
			return Version{}, data
		}
		return v, data[i+1:]
	}
	return Version{}, data
}
