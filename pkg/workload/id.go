package workload

import (
	"strconv"
	"strings"

	"github.com/pkg/errors"
)

// ID is a reservation's ID, parsed: reservation N, workload M in it. Only its
// String may become a file name.
type ID struct {
	N uint64
	M uint64
}

// ParseID reads "N-M", both decimal without sign; leading zeros are accepted,
// as the seed does, and String is without them.
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
