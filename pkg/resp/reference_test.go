package resp_test

import (
	"math/big"
	"strings"

	"github.com/croft-edge/croft/pkg/resp"
)

// request is the reference's reading of the beginning of b: a complete request,
// an incomplete one (size 0), or an error.
type request struct {
	args []string
	size int
	err  error
}

// reference reads a request the slow and simple way, from the beginning, byte by
// byte. The parser is compared with it.
func reference(b []byte, l resp.Limits) request {
	rest := b
	count, ok, err := referenceLine(&rest, '*', resp.ErrNotArray)
	switch {
	case err != nil || !ok:
		return request{err: err}
	case count.Sign() <= 0:
		return request{err: resp.ErrNoCount}
	case count.Cmp(big.NewInt(int64(l.Arguments))) > 0:
		return request{err: resp.ErrManyArgs}
	}
	var out request
	for range count.Int64() {
		length, ok, err := referenceLine(&rest, '$', resp.ErrNotBulk)
		switch {
		case err != nil || !ok:
			return request{err: err}
		case length.Sign() < 0:
			return request{err: resp.ErrNotBulk}
		case length.Cmp(big.NewInt(int64(l.Argument))) > 0:
			return request{err: resp.ErrTooBig}
		}
		n := int(length.Int64())
		if int64(len(b)-len(rest)+n+2) > l.Request {
			return request{err: resp.ErrWholeSize}
		}
		if len(rest) < n+2 {
			return request{}
		}
		out.args = append(out.args, string(rest[:n]))
		rest = rest[n+2:]
	}
	out.size = len(b) - len(rest)
	return out
}

// referenceLine reads a line of at most 32 bytes.
func referenceLine(rest *[]byte, kind byte, wrong error) (*big.Int, bool, error) {
	for i, c := range *rest {
		if i == 0 && c != kind {
			return nil, false, wrong
		}
		if c == '\n' {
			line := string((*rest)[1:i])
			*rest = (*rest)[i+1:]
			return atoi(line), true, nil
		}
		if i == 31 {
			return nil, false, wrong
		}
	}
	return nil, false, nil
}

func atoi(s string) *big.Int {
	s = strings.TrimLeft(s, " \t\n\v\f\r")
	end := 0
	for end < len(s) && (s[end] >= '0' && s[end] <= '9' || end == 0 && strings.IndexByte("+-", s[0]) >= 0) {
		end++
	}
	n, ok := new(big.Int).SetString(s[:end], 10)
	if !ok {
		return new(big.Int)
	}
	return n
}
