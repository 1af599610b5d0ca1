package source

import (
	"encoding/json"
	stderrors "errors"
	"io/fs"
	"os"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/explorer"
)

// CursorFile keeps the cursor in a file of its own.
type CursorFile struct {
	path string
}

// NewCursorFile keeps it at path, whose folder must exist.
func NewCursorFile(path string) *CursorFile { return &CursorFile{path: path} }

// Get returns the cursor, the zero one when there is no file.
func (f *CursorFile) Get() (explorer.Cursor, error) {
	data, err := os.ReadFile(f.path)
	if stderrors.Is(err, fs.ErrNotExist) {
		return explorer.Cursor{}, nil
	}
	var c explorer.Cursor
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err != nil {
		return explorer.Cursor{}, errors.Wrapf(err, "cannot read cursor %s", f.path)
	}
	return c, nil
}

// Set replaces the cursor durably.
func (f *CursorFile) Set(c explorer.Cursor) error {
	data, err := json.Marshal(c)
	if err != nil {
		return errors.Wrap(err, "cannot write cursor")
	}
	return errors.Wrapf(atomicfile.WriteFile(f.path, data, 0o600), "cannot write cursor %s", f.path)
}
