package project

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/workload"
)

// encode writes a filled tree as data, in the canonical form.
func (w *Workload) encode(tree any) (json.RawMessage, error) {
	raw, err := json.Marshal(tree)
	if err != nil {
		return nil, errors.Wrapf(err, "cannot write the data of %q", w.Name)
	}
	return workload.Canonical(raw)
}

// Placeholders for IDs and secrets that aren't known before a push.
const (
	anyID  = "1-1"
	anyBox = 48
	anyHex = 64
)

// anyKey is another one for each secret of a workload.
func anyKey(s *Secret) (string, error) {
	sum := sha256.Sum256([]byte(s.Path))
	return base64.StdEncoding.EncodeToString(sum[:]), nil
}

// Check checks the workload as it would be pushed by user, with placeholders for
// IDs and secrets. A mistake is an Error with its line.
func (w *Workload) Check(user string) error {
	tree, err := w.filled(fill{
		id:     func(string) (string, error) { return anyID, nil },
		hash:   func(string) (string, error) { return strings.Repeat("0", anyHex), nil },
		secret: func(*Secret) (string, error) { return strings.Repeat("00", anyBox), nil },
		public: anyKey,
	})
	if err != nil {
		return err
	}
	data, err := w.encode(tree)
	if err != nil {
		return err
	}
	return w.Explain(workload.Validate(&workload.Reservation{
		NodeID: w.Node, User: user, Type: w.Type, Data: data, Created: time.Unix(0, 0), Duration: w.Duration,
		Version: workload.V2, Nonce: make([]byte, workload.NonceSize),
	}))
}

// Explain turns the refusal of this workload's reservation into an Error with
// its line; nil and other errors are returned unchanged.
func (w *Workload) Explain(err error) error {
	var refused *workload.FieldError
	if !errors.As(err, &refused) {
		return err
	}
	at := place{line: w.origin.line, field: w.origin.field}
	if path, ok := strings.CutPrefix(refused.Field, "data"); ok {
		at = w.place(strings.TrimPrefix(path, "."))
	} else {
		at.field = join(at.field, refused.Field)
	}
	return &Error{File: w.origin.file, Line: at.line, Field: at.field, Problem: "is " + refused.Value + ", must be " + refused.Allowed}
}

// place is where a path of the data is in the file.
func (w *Workload) place(path string) place { return placeIn(w.body.places, path) }

// placeIn is where a path is. A path that isn't in the file has the line of its
// nearest parent that is.
func placeIn(places map[string]place, path string) place {
	rest := ""
	for {
		if p, ok := places[path]; ok {
			return place{line: p.line, field: p.field + rest}
		}
		cut := strings.LastIndexAny(path, ".[")
		if cut < 0 {
			p := places[""]
			return place{line: p.line, field: join(p.field, path) + rest}
		}
		path, rest = path[:cut], path[cut:]+rest
	}
}
