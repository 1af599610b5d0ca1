package workload

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/clip"
	"github.com/croft-edge/croft/pkg/fielderror"
)

// ID is a reservation's ID, parsed: reservation N, workload M in it. Only its
// String may become a file name.
type ID struct {
	N uint64
	M uint64
}

// ParseID reads "N-M", both decimal without sign; like the seed it accepts leading
// zeros, which String drops.
func ParseID(text string) (ID, error) {
	n, m, ok := strings.Cut(text, "-")
	if !ok {
		return ID{}, errIDForm(text)
	}
	var id ID
	var err error
	if id.N, err = parseDecimal(n); err != nil {
		return ID{}, errIDForm(text)
	}
	if id.M, err = parseDecimal(m); err != nil {
		return ID{}, errIDForm(text)
	}
	return id, nil
}

// IsID reports whether a text is a reservation's ID in the canonical form, which is what the node names things by.
func IsID(text string) bool {
	id, err := ParseID(text)
	return err == nil && id.String() == text
}

func parseDecimal(s string) (uint64, error) {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, errors.New("not a decimal number")
		}
	}
	return strconv.ParseUint(s, 10, 64)
}

func errIDForm(text string) error {
	if len(text) > 64 {
		text = text[:64] + "…"
	}
	return errors.Errorf("cannot read ID %q: it must be N-M, two decimal numbers", text)
}

// String is the canonical form.
func (id ID) String() string {
	return strconv.FormatUint(id.N, 10) + "-" + strconv.FormatUint(id.M, 10)
}

// SplitID splits the reservation's ID into reservation and workload.
func (r *Reservation) SplitID() (reservation, workload uint64, err error) {
	id, err := ParseID(r.ID)
	return id.N, id.M, err
}

// Hash identifies a user's signed document: SHA-256 of the signed bytes.
type Hash [sha256.Size]byte

// hashRule is the form of a hash in data.
const hashRule = "the hash of a reservation: 64 hexadecimal digits in lower case"

// Hex is the hash as data holds it: 64 hexadecimal digits in lower case.
func (h Hash) Hex() string { return hex.EncodeToString(h[:]) }

// ParseHash reads the form that Hex writes. Capitals are refused: a hash has one text.
func ParseHash(text string) (Hash, error) {
	var h Hash
	if len(text) != hex.EncodedLen(len(h)) || strings.ToLower(text) != text {
		return Hash{}, errors.Errorf("cannot read hash %q: it must be %s", clip.Text(text, fielderror.MaxShown), hashRule)
	}
	if _, err := hex.Decode(h[:], []byte(text)); err != nil {
		return Hash{}, errors.Errorf("cannot read hash %q: it must be %s", text, hashRule)
	}
	return h, nil
}

// validateHash accepts a reference by hash where one is allowed. Version 1 allows none:
// programs of that version don't know the member.
func validateHash(r *Reservation, field, hash string) error {
	if hash == "" {
		return nil
	}
	if r.DocumentVersion() == V1 {
		return fielderror.New(field, hash, "absent in version %d", V1)
	}
	if _, err := ParseHash(hash); err != nil {
		return fielderror.New(field, hash, hashRule)
	}
	return nil
}
