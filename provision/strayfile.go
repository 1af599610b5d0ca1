package provision

import (
	"encoding/json"
	stderrors "errors"
	"io/fs"
	"os"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/atomicfile"
)

// StrayFile is a StrayBook in a file of its own.
type StrayFile struct {
	path string
}

// NewStrayFile keeps it at path, whose folder must exist.
func NewStrayFile(path string) *StrayFile { return &StrayFile{path: path} }

// Load returns what was saved, nothing when there is no file.
func (f *StrayFile) Load() ([]Stray, error) {
	data, err := os.ReadFile(f.path)
	if stderrors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []Stray
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	return out, errors.Wrapf(err, "cannot read strays %s", f.path)
}

// Save replaces it durably.
func (f *StrayFile) Save(strays []Stray) error {
	data, err := json.Marshal(strays)
	if err != nil {
		return errors.Wrap(err, "cannot write strays")
	}
	return errors.Wrapf(atomicfile.WriteFile(f.path, data, 0o600), "cannot write strays %s", f.path)
}
