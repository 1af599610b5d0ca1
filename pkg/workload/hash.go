package workload

import (
	"encoding/hex"

	"github.com/pkg/errors"
)

// Hex is the hash as labels on the node carry it: 64 digits, lower case.
func (h Hash) Hex() string { return hex.EncodeToString(h[:]) }

// ParseHash reads what Hex writes.
func ParseHash(text string) (Hash, error) {
	var h Hash
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(h) || hex.EncodeToString(raw) != text {
		return h, errors.Errorf("cannot read hash %.80q: it must be %d of 0-9 and a-f", text, 2*len(h))
	}
	copy(h[:], raw)
	return h, nil
}
