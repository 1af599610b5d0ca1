package explorer

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/croft-edge/croft/pkg/node"
)

// ListPage selects a page of a list. The zero ListPage is the first.
type ListPage struct {
	// After is the end of the last page; empty for the first page.
	After string
	// Limit is the largest number of items; 0 leaves it to the explorer.
	Limit int
}

func (p ListPage) query() url.Values {
	q := url.Values{}
	if p.After != "" {
		q.Set("after", p.After)
	}
	if p.Limit > 0 {
		q.Set("limit", strconv.Itoa(p.Limit))
	}
	return q
}

// HeaderNext carries the position of a list's next page.
const HeaderNext = "Croft-Next"

func next(h http.Header) string { return strings.TrimSpace(h.Get(HeaderNext)) }

// maxPages bounds a list: an explorer's list must end.
const maxPages = 10000

func collect[T any](page func(ListPage) ([]T, string, error)) ([]T, error) {
	var out []T
	p := ListPage{}
	for range maxPages {
		items, after, err := page(p)
		if err != nil {
			return nil, err
		}
		out = append(out, items...)
		if after == "" || after == p.After {
			return out, nil
		}
		p.After = after
	}
	return nil, node.Errorf(node.Transient, "cannot list: the explorer's list has no end")
}
