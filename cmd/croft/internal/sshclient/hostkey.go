package sshclient

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/clip"
)

// mostKeyText is how long a key's base64 may be: an RSA key of 16384 bits, the longest that OpenSSH makes, has 2.8 KiB.
const mostKeyText = 4 << 10

// HostKey is a public key of an ssh server.
type HostKey struct {
	algorithm string
	// blob is the key in the form of RFC 4253, section 6.6.
	blob []byte
}

// String is the key as a line of known_hosts has it, without the host's name.
func (k HostKey) String() string {
	return k.algorithm + " " + base64.StdEncoding.EncodeToString(k.blob)
}

// Fingerprint is the one that ssh shows, as in "SHA256:…".
func (k HostKey) Fingerprint() string {
	sum := sha256.Sum256(k.blob)
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])
}

// ParseHostKey reads "ALGORITHM BASE64", as in a file ending in .pub; a comment behind them is ignored. Algorithms are
// ssh-ed25519, ecdsa-sha2-nistp256, 384 and 521, and ssh-rsa.
func ParseHostKey(line string) (HostKey, error) {
	fields := strings.Fields(line)
	if len(fields) < 2 {
		return HostKey{}, errors.Errorf("cannot read ssh host key %q: it must be as in 'ssh-ed25519 AAAA…'", clip.Line(line, 60))
	}
	k := HostKey{algorithm: fields[0]}
	failed := func(why string) (HostKey, error) {
		return HostKey{}, errors.Errorf("cannot read ssh host key of type %q: %s", clip.Line(k.algorithm, 40), why)
	}
	lengths := partsOf(k.algorithm)
	if lengths == nil {
		return failed("the type must be ssh-ed25519, ecdsa-sha2-nistp256, ecdsa-sha2-nistp384, ecdsa-sha2-nistp521 or ssh-rsa")
	}
	if len(fields[1]) > mostKeyText {
		return failed("it is too long")
	}
	var err error
	if k.blob, err = base64.StdEncoding.Strict().DecodeString(fields[1]); err != nil {
		return failed("it isn't base64")
	}
	if why := checkBlob(k, lengths); why != "" {
		return failed(why)
	}
	return k, nil
}

// partsOf are the lengths, in bytes, of the strings that a key of that algorithm has behind its name; 0 where the
// length isn't fixed. Nil for an algorithm that isn't accepted.
func partsOf(algorithm string) []int {
	switch algorithm {
	case "ssh-ed25519":
		return []int{32}
	case "ecdsa-sha2-nistp256":
		return []int{len("nistp256"), 65}
	case "ecdsa-sha2-nistp384":
		return []int{len("nistp384"), 97}
	case "ecdsa-sha2-nistp521":
		return []int{len("nistp521"), 133}
	case "ssh-rsa":
		return []int{0, 0}
	}
	return nil
}

// checkBlob says why a blob isn't whole, or of another algorithm than it says; empty when it is right.
func checkBlob(k HostKey, lengths []int) string {
	name, rest, ok := cutString(k.blob)
	if !ok || string(name) != k.algorithm {
		return "the text in base64 is a key of another type"
	}
	for i, length := range lengths {
		var part []byte
		if part, rest, ok = cutString(rest); !ok || len(part) == 0 || length > 0 && len(part) != length {
			return "it isn't whole"
		}
		if curve, ecdsa := strings.CutPrefix(k.algorithm, "ecdsa-sha2-"); ecdsa && i == 0 && string(part) != curve {
			return "its curve is another one"
		}
	}
	if len(rest) > 0 {
		return "there is something behind it"
	}
	return ""
}

// cutString takes a string of RFC 4251, section 5, off a blob's front.
func cutString(blob []byte) (text, rest []byte, ok bool) {
	if len(blob) < 4 {
		return nil, nil, false
	}
	length := uint64(binary.BigEndian.Uint32(blob))
	if length > uint64(len(blob)-4) {
		return nil, nil, false
	}
	return blob[4 : 4+length], blob[4+length:], true
}
