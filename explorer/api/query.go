package api

import (
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	wire "github.com/croft-edge/croft/pkg/explorer"
)

const (
	// maxListed is how many items one page of a list holds.
	maxListed = 1000
	// maxNumber is the largest number that the database can hold.
	maxNumber = math.MaxInt64
)

// query reads a request's parameters and keeps the first error.
type query struct {
	values url.Values
	err    error
}

// number reads a decimal number; absent is the default.
func (q *query) number(name string, absent, most uint64) uint64 {
	text := q.values.Get(name)
	if text == "" {
		return absent
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n > most || (name == "limit" && n == 0) {
		q.fail(invalid(name, text, "a decimal number, at most "+strconv.FormatUint(most, 10)))
		return absent
	}
	return n
}

func (q *query) flag(name string) bool {
	switch text := q.values.Get(name); text {
	case "", "false":
		return false
	case "true":
		return true
	default:
		q.fail(invalid(name, text, "true or false"))
		return false
	}
}

// duration reads a duration like 20s, capped at most; the default is most.
func (q *query) duration(name string, most time.Duration) time.Duration {
	text := q.values.Get(name)
	if text == "" {
		return most
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		q.fail(invalid(name, text, "a duration like 20s, not negative"))
		return 0
	}
	return min(d, most)
}

// only refuses parameters of other names, and returns the first error.
func (q *query) only(names ...string) error {
	for name := range q.values {
		if !slices.Contains(names, name) {
			q.fail(invalid(name, q.values.Get(name), "absent: the known parameters are "+strings.Join(names, ", ")))
		}
	}
	return q.err
}

func (q *query) fail(err error) {
	if q.err == nil {
		q.err = err
	}
}

func setNext(w http.ResponseWriter, after uint64) {
	w.Header().Set(wire.HeaderNext, strconv.FormatUint(after, 10))
}
