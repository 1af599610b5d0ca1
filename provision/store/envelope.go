package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/versioned"
)

// A file of croft's is a version header, the SHA-256 of header and body in hex,
// a newline, and the body (JSON, one line):
//
//	"3.0.0"5f1c…9a
//	{"reservation":…}
//
// Major 3 is croft's present version, 2 its previous one (see migrate); 1.0.0 and 0.0.0 are
// the seed's, a reservation's JSON without a checksum.
func fileVersion() versioned.Version { return versioned.Version{Major: 3} }

// oldestSealed is the first major version with a checksum.
const oldestSealed = 2

// errNewer marks a sound file that a newer croft has written and this one can't read.
var errNewer = errors.New("it was written by a newer croft")

// seal puts version and checksum in front of body.
func seal(body []byte) []byte {
	v := fileVersion()
	sum := checksum(v, body)
	out := make([]byte, 0, len(body)+len(sum)+16)
	out = append(out, versioned.Join(v, []byte(sum))...)
	out = append(out, '\n')
	out = append(out, body...)
	return append(out, '\n')
}

// open checks a file that seal made and returns its body.
func open(file []byte) ([]byte, error) {
	v, rest := versioned.Split(file)
	sum, body, ok := bytes.Cut(rest, []byte("\n"))
	body, ended := bytes.CutSuffix(body, []byte("\n"))
	if !ok || !ended {
		return nil, errors.New("it is cut short")
	}
	if checksum(v, body) != string(sum) {
		return nil, errors.New("its checksum doesn't match")
	}
	if v.Major > fileVersion().Major {
		return nil, errors.Wrapf(errNewer, "version %s", v)
	}
	if v.Major < oldestSealed {
		return nil, errors.Errorf("its version is %s, must be %d to %s", v, oldestSealed, fileVersion())
	}
	return body, nil
}

// checksum covers the version, too: damage to it must not pass for a newer croft's file.
func checksum(v versioned.Version, body []byte) string {
	h := sha256.New()
	_, _ = h.Write(versioned.Join(v, nil))
	_, _ = h.Write(body)
	return hex.EncodeToString(h.Sum(nil))
}
