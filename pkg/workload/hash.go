package workload

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/clip"
)

// Hash identifies what a user signed: SHA-256 of the signed bytes.
type Hash [sha256.Size]byte

// hashRule is what a hash in data must be.
const hashRule = "the hash of a reservation: 64 hexadecimal digits in lower case"

// Hex is the hash as data holds it: 64 hexadecimal digits in lower case.
func (h Hash) Hex() string { return hex.EncodeToString(h[:]) }

// ParseHash reads what Hex writes. Capitals are refused: a hash has one text.
func ParseHash(text string) (Hash, error) {
	var h Hash
	if len(text) != hex.EncodedLen(len(h)) || strings.ToLower(text) != text {
		return Hash{}, errors.Errorf("cannot read hash %q: it must be %s", clip.Text(text, maxShown), hashRule)
	}
	if _, err := hex.Decode(h[:], []byte(text)); err != nil {
		return Hash{}, errors.Errorf("cannot read hash %q: it must be %s", text, hashRule)
	}
	return h, nil
}

// validateHash accepts a reference by hash where there may be one. Documents of
// version 1 have none: programs of that version don't know the member.
func validateHash(r *Reservation, field, hash string) error {
	if hash == "" {
		return nil
	}
	if r.DocumentVersion() == V1 {
		return refuse(field, hash, "absent in version %d", V1)
	}
	if _, err := ParseHash(hash); err != nil {
		return refuse(field, hash, hashRule)
	}
	return nil
}
