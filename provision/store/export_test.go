package store

import "github.com/croft-edge/croft/pkg/versioned"

// SealAs makes a sound file of another version.
func SealAs(v versioned.Version, body []byte) []byte {
	out := versioned.Join(v, []byte(checksum(v, body)+"\n"))
	return append(append(out, body...), '\n')
}
