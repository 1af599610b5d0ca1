package plane

import (
	"bytes"
	"encoding/json"
	"os"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/pkg/errors"
)

// journal keeps over the end of a process what isn't in the database yet. It isn't synced: a machine that loses its power may find an old one, whose
// entries the database knows by their numbers.
type journal struct {
	path string
	file *os.File
	// size is its size in bytes, least what it was when it was last written anew.
	size, least int
	// stale is whether it lacks a change, since it couldn't be written.
	stale bool
	// wake has the journal written.
	wake chan struct{}
}

// mostJournal is the size in bytes from which a journal is written anew: it has entries by then that a newer one replaces.
const mostJournal = 4 << 20

// entry is what happened to a resource. Each is a line of JSON; sealed contents are those of the database.
type entry struct {
	// Number orders the changes of a history, over all restarts.
	Number uint64        `json:"number"`
	Kind   resource.Type `json:"kind"`
	ID     resource.ID   `json:"id"`
	Sealed []byte        `json:"sealed,omitempty"` // nothing when it was removed
}

// openJournal opens or makes a journal, and returns the entries that an earlier process has left, the oldest first. Lines that were cut short by that
// process's end or a full disk are left out.
func openJournal(path string) (*journal, []entry, error) {
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, nil, errors.Wrap(err, "cannot read the journal of the history")
	}
	var left []entry
	for line := range bytes.SplitSeq(raw, []byte("\n")) {
		var e entry
		if json.Unmarshal(line, &e) == nil && e.Kind != "" {
			left = append(left, e)
		}
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, errors.Wrap(err, "cannot open the journal of the history")
	}
	return &journal{path: path, file: file, size: len(raw), wake: make(chan struct{}, 1)}, left, nil
}

// large reports whether the journal is to be written anew. One that was large then, too, grows to twice its size.
func (j *journal) large() bool { return j.size > max(mostJournal, 2*j.least) }

// add adds entries. A line begins with a newline, too: one that was cut short takes no other with it.
func (j *journal) add(all ...entry) error {
	n, err := write(j.file, all)
	j.size += n
	return errors.Wrap(err, "cannot write the journal of the history")
}

func write(file *os.File, all []entry) (int, error) {
	var text bytes.Buffer
	for _, e := range all {
		line, err := json.Marshal(e)
		if err != nil {
			return 0, errors.WithStack(err)
		}
		text.WriteByte('\n')
		text.Write(line)
		text.WriteByte('\n')
	}
	return file.Write(text.Bytes())
}

// replace makes these the only entries.
func (j *journal) replace(all ...entry) error {
	if len(all) == 0 {
		if err := j.file.Truncate(0); err != nil {
			return errors.Wrap(err, "cannot empty the journal of the history")
		}
		j.size, j.least = 0, 0
		return nil
	}
	next := j.path + ".new"
	file, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return errors.Wrap(err, "cannot make the journal of the history anew")
	}
	size, err := write(file, all)
	if err == nil {
		err = os.Rename(next, j.path)
	}
	if err != nil {
		_ = file.Close()
		_ = os.Remove(next)
		return errors.Wrap(err, "cannot make the journal of the history anew")
	}
	_ = j.file.Close()
	j.file, j.size, j.least = file, size, size
	return nil
}
