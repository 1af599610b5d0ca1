package drift

import (
	"encoding/json"
	"io/fs"
	"os"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/atomicfile"
)

// OrphanFile is an OrphanBook in a file of its own.
type OrphanFile struct {
	path string
}

// NewOrphanFile keeps the orphans at path, whose folder must exist.
func NewOrphanFile(path string) *OrphanFile { return &OrphanFile{path: path} }

// Load returns the saved orphans, none when there is no file.
func (f *OrphanFile) Load() ([]Orphan, error) {
	data, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []Orphan
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	return out, errors.Wrapf(err, "cannot read orphans %s", f.path)
}

// Save replaces the file durably.
func (f *OrphanFile) Save(orphans []Orphan) error {
	data, err := json.Marshal(orphans)
	if err != nil {
		return errors.Wrap(err, "cannot write orphans")
	}
	return errors.Wrapf(atomicfile.WriteFile(f.path, data, 0o600), "cannot write orphans %s", f.path)
}
