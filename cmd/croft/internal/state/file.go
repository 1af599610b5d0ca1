package state

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/workload"
)

// version is that of the file's form.
const version = 1

// Folder is where states lie, beside the project file.
const Folder = ".croft"

// File is the state of a project's reservations.
type File struct {
	Version int `json:"version"`
	// Project and User are whose it is: another's is refused.
	Project string `json:"project"`
	User    string `json:"user"`
	// Current are the workloads by name.
	Current map[string]*Entry `json:"current"`
	// Leaving are those whose deletion is signed and not yet answered.
	Leaving []*Entry `json:"leaving,omitempty"`

	path string
}

// Entry is one reservation.
type Entry struct {
	Name string        `json:"name"`
	Type workload.Type `json:"type"`
	Node string        `json:"node"`
	// Network is the network's own name, of networks only.
	Network string `json:"network,omitempty"`
	// ID is empty until the explorer has given one.
	ID string `json:"id,omitempty"`
	// Digest is the plain workload's, see project.Workload.Digest.
	Digest string `json:"digest"`
	// Duration is that of the project file at the last signing or renewal, in ns.
	Duration time.Duration `json:"duration"`
	// Uses are the IDs that the data refers to, by the workload's name.
	Uses map[string]string `json:"uses,omitempty"`
	// Hashes are those of the reservations that the data names, by the
	// workload's name. An entry of before data named any has none.
	Hashes map[string]string `json:"hashes,omitempty"`
	// Document is the signed reservation as it was or will be pushed, byte for
	// byte: as text, for JSON in JSON would be reformatted.
	Document string `json:"document"`
	// Renewal is the newest one that the explorer has taken.
	Renewal *workload.Renewal `json:"renewal,omitempty"`
	// Deletion is signed; Told is whether the explorer has taken it.
	Deletion *workload.Deletion `json:"deletion,omitempty"`
	Told     bool               `json:"told,omitempty"`
	// Seen is the newest verified result's place in the node's order.
	Seen Seen `json:"seen"`
	// Before are the reservations whose place this one takes on its node, the oldest
	// first, as far as their ends weren't seen. Of containers only.
	Before []*Entry `json:"before,omitempty"`
}

// Seen is the newest verified result that was seen of a reservation.
type Seen struct {
	Birth    string    `json:"birth,omitempty"`
	Sequence int64     `json:"sequence,omitempty"`
	Created  time.Time `json:"created,omitzero"`
}

// Reservation is the entry's document with its ID, renewal and deletion.
func (e *Entry) Reservation() (*workload.Reservation, error) {
	var r workload.Reservation
	if err := json.Unmarshal([]byte(e.Document), &r); err != nil {
		return nil, errors.Wrapf(err, "cannot read the document of %q in the state", e.Name)
	}
	r.ID, r.Renewal, r.Deletion = e.ID, e.Renewal, e.Deletion
	return &r, nil
}

// Path is where the state of a project lies whose file is at projectFile.
func Path(projectFile, project string) string {
	return filepath.Join(filepath.Dir(projectFile), Folder, project+".json")
}

// Read reads the state at path; one that isn't there is empty. A state of
// another project or user is refused.
func Read(path, project, user string) (*File, error) {
	out := &File{Version: version, Project: project, User: user, path: path}
	content, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return nil, errors.Wrap(err, "cannot read state")
	}
	if err == nil {
		decoder := json.NewDecoder(bytes.NewReader(content))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(out); err != nil {
			return nil, errors.Wrapf(err, "cannot read state %s", path)
		}
	}
	if out.Current == nil {
		out.Current = map[string]*Entry{}
	}
	return out, out.check(project, user)
}

func (f *File) check(project, user string) error {
	if f.Version != version {
		return errors.Errorf("cannot read state %s: version is %d, must be %d", f.path, f.Version, version)
	}
	if f.Project != project {
		return errors.Errorf("cannot read state %s: it is of project %q, not of %q", f.path, f.Project, project)
	}
	if f.User != user {
		return errors.Errorf("cannot use state %s: it is of user %s, and the key is of %s; name the right key with --id", f.path, f.User, user)
	}
	for name, e := range f.Current {
		if e == nil || e.Name != name || slices.ContainsFunc(e.Before, func(b *Entry) bool { return b == nil || b.Name != name || len(b.Before) > 0 }) {
			return errors.Errorf("cannot read state %s: the entry %q isn't one of that name", f.path, name)
		}
	}
	return nil
}

// Save writes the state; it is durable when Save returns.
func (f *File) Save() error {
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return errors.Wrap(err, "cannot write state")
	}
	content, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return errors.Wrap(err, "cannot write state")
	}
	return errors.Wrap(atomicfile.WriteFile(f.path, append(content, '\n'), 0o600), "cannot write state")
}

// Names are those of the current entries, sorted.
func (f *File) Names() []string {
	out := make([]string, 0, len(f.Current))
	for name := range f.Current {
		out = append(out, name)
	}
	sort.Strings(out)
	return out
}

// Leave moves the current entry of that name to those that are leaving.
func (f *File) Leave(name string, d *workload.Deletion) *Entry {
	e := f.Current[name]
	delete(f.Current, name)
	f.leave(e, d)
	return e
}

// LeaveBefore moves an entry whose place another was to take to those that are leaving.
func (f *File) LeaveBefore(of, e *Entry, d *workload.Deletion) {
	of.Drop(e)
	f.leave(e, d)
}

func (f *File) leave(e *Entry, d *workload.Deletion) {
	e.Deletion = d
	f.Leaving = append(f.Leaving, e)
}

// mostBefore is how many replaced entries are kept: only the oldest of them may run.
const mostBefore = 8

// Takes makes e the current entry, in the place of the one that is, which it follows.
func (f *File) Takes(e *Entry) {
	old := f.Current[e.Name]
	e.Before = append(old.Before, old)
	if n := len(e.Before); n > mostBefore {
		e.Before = slices.Delete(e.Before, 1, n-mostBefore+1)
	}
	old.Before = nil
	f.Current[e.Name] = e
}

// Back makes the one before it the current entry again, and forgets e; with none,
// the name is forgotten.
func (f *File) Back(e *Entry) {
	delete(f.Current, e.Name)
	if n := len(e.Before); n > 0 {
		last := e.Before[n-1]
		last.Before = e.Before[:n-1]
		f.Current[e.Name] = last
	}
}

// Drop forgets an entry before e.
func (e *Entry) Drop(one *Entry) {
	e.Before = slices.DeleteFunc(slices.Clone(e.Before), func(b *Entry) bool { return b == one })
}

// Gone forgets a leaving entry.
func (f *File) Gone(e *Entry) {
	for i, one := range f.Leaving {
		if one == e {
			f.Leaving = append(f.Leaving[:i:i], f.Leaving[i+1:]...)
			return
		}
	}
}

// All are the current entries by name, each with those before it, then the leaving ones.
func (f *File) All() []*Entry {
	var out []*Entry
	for _, name := range f.Names() {
		out = append(append(out, f.Current[name]), f.Current[name].Before...)
	}
	return append(out, f.Leaving...)
}
