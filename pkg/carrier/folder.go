package carrier

import (
	"os"
	"path/filepath"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/cgroup"
)

// Folder is {run}/NAME.
type Folder string

// FolderOf is the folder of the carrier of that name.
func FolderOf(runDir, name string) Folder { return Folder(filepath.Join(runDir, name)) }

// Path is the path of a file in it.
func (f Folder) Path(name string) string { return filepath.Join(string(f), name) }

// Socket is the carrier's socket.
func (f Folder) Socket() string { return f.Path("socket") }

// Lock is held by the carrier.
func (f Folder) Lock() string { return f.Path("lock") }

// StartLock is held by the process that starts one.
func (f Folder) StartLock() string { return f.Path("start.lock") }

// PID is the file with its process ID.
func (f Folder) PID() string { return f.Path("pid") }

// Log is the carrier's log.
func (f Folder) Log() string { return f.Path("log") }

// Group is the name of the control group of this folder's carrier: several
// nodes may be on one machine.
func (f Folder) Group() string {
	return cgroup.Name(filepath.Base(string(f)), string(f))
}

// Make makes the folder, for this user alone.
func (f Folder) Make() error {
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return errors.Wrap(err, "cannot make the carrier's folder")
	}
	return errors.Wrap(os.Chmod(string(f), 0o700), "cannot make the carrier's folder")
}
