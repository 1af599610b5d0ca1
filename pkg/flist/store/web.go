package store

import (
	"context"
	"io"
	"net/http"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/fetch"
	"github.com/croft-edge/croft/pkg/flist"
	"github.com/croft-edge/croft/pkg/node"
)

// web is a store over HTTP: a folder of blocks below base, which has no slash at its end.
type web struct {
	client *http.Client
	base   string
	// flat is whether the last block was found in the older layout, in which blocks aren't in folders.
	flat bool
}

// get implements blocks. A block that isn't in the one layout is looked for in the other.
func (w *web) get(ctx context.Context, id flist.Hash, most int) ([]byte, error) {
	out, err := w.ask(ctx, w.path(id), most)
	var absent absentError
	if errors.As(err, &absent) {
		w.flat = !w.flat
		out, err = w.ask(ctx, w.path(id), most)
	}
	return out, err
}

// absentError is the error of an answer by which a block isn't there.
type absentError struct{ error }

// Unwrap returns the cause.
func (e absentError) Unwrap() error { return e.error }

func (w *web) path(id flist.Hash) string {
	name := id.String()
	if w.flat {
		return w.base + "/" + name
	}
	return w.base + "/" + name[:2] + "/" + name
}

func (w *web) ask(ctx context.Context, path string, most int) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, node.Errorf(node.Refused, "its URL can't be used")
	}
	req.Header.Set("User-Agent", "croft")
	res, err := w.client.Do(req)
	if err != nil {
		return nil, fetch.Cause(err)
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode == http.StatusNotFound:
		return nil, absentError{errMissing}
	case res.StatusCode != http.StatusOK:
		err := node.Errorf(fetch.StatusKind(res.StatusCode), "it answers %d %s", res.StatusCode, http.StatusText(res.StatusCode))
		// Stores of objects answer so for what isn't there, to those who may not list it.
		if res.StatusCode == http.StatusForbidden {
			err = absentError{err}
		}
		return nil, err
	}
	out, err := io.ReadAll(io.LimitReader(res.Body, int64(most)+1))
	switch {
	case err != nil:
		return nil, fetch.Cause(err)
	case len(out) > most:
		return nil, node.Errorf(node.Refused, "it sends more than the %d bytes that the block can have", most)
	}
	return out, nil
}

// close implements blocks. The connections are the client's.
func (w *web) close() {}
