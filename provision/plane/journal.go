package plane

import (
	"bytes"
	"encoding/json"
	"os"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/pkg/errors"
)

// journal keeps over the end of a process what isn't in the database yet. It isn't synced: what a machine loses that loses its power, the
// database's transactions bound.
type journal struct {
	file *os.File
	// size is its size in bytes.
	size int
}

// mostJournal is the size in bytes from which what is pending is written anew: a database that can't be written mustn't make it grow for ever.
const mostJournal = 4 << 20

// entry is what happened to a resource. Each is a line of JSON; sealed contents are those of the database.
type entry struct {
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
	return &journal{file, len(raw)}, left, errors.Wrap(err, "cannot open the journal of the history")
}

// add adds entries. A line begins with a newline, too: one that was cut short takes no other with it.
func (j *journal) add(all ...entry) error {
	var text bytes.Buffer
	for _, e := range all {
		line, err := json.Marshal(e)
		if err != nil {
			return errors.Wrap(err, "cannot write an entry of the journal")
		}
		text.WriteByte('\n')
		text.Write(line)
		text.WriteByte('\n')
	}
	n, err := j.file.Write(text.Bytes())
	j.size += n
	return errors.Wrap(err, "cannot write the journal of the history")
}

// replace leaves these entries alone.
func (j *journal) replace(all ...entry) error {
	if len(all) == 0 {
		j.size = 0
		return errors.Wrap(j.file.Truncate(0), "cannot empty the journal of the history")
	}
	path := j.file.Name()
	file, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return errors.Wrap(err, "cannot make the journal of the history anew")
	}
	next := &journal{file: file}
	if err = next.add(all...); err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		_ = file.Close()
		return errors.Wrap(err, "cannot make the journal of the history anew")
	}
	_ = j.file.Close()
	renamed, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0o600) // its name is the right one then
	if err != nil {
		j.file, j.size = file, next.size
		return errors.Wrap(err, "cannot open the journal of the history")
	}
	_ = file.Close()
	j.file, j.size = renamed, next.size
	return nil
}
