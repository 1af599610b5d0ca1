package machine

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/filelock"
	"github.com/croft-edge/croft/pkg/node"
)

// Folder is {run}/vm, on a tmpfs: it is empty after the machine's start. Below it a VM has
//
//	ID/record   its Record
//	ID/config   its config disk, which may have secrets
//	ID          itself locked by its process, from before QEMU is executed until its end
//	ID/pid      the identity of that process, written by itself before QEMU is executed
//	ID/qmp, ID/console   sockets on which QEMU listens
//
// Only root can enter it: QEMU, which isn't, gets its files opened.
type Folder struct{ path string }

// The names of a VM's files.
const (
	recordName  = "record"
	configName  = "config"
	pidName     = "pid"
	qmpName     = "qmp"
	consoleName = "console"
)

// OpenFolder makes the folder of all VMs.
func OpenFolder(path string) (*Folder, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, errors.Wrap(err, "cannot make the folder of VMs")
	}
	return &Folder{path: path}, errors.Wrap(os.Chmod(path, 0o700), "cannot make the folder of VMs")
}

// validID is the syntax of VMs' IDs, which are names of files.
func validID() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`) }

// CheckID returns Invalid unless id can be a VM's.
func CheckID(what, id string) error {
	if !validID().MatchString(id) {
		return node.Errorf(node.Invalid, "cannot %s VM %.80q: its ID must be 1 to 64 letters, digits, dashes and underscores, the first a letter or a digit", what, id)
	}
	return nil
}

// Of is the path of a VM's files.
func (f *Folder) Of(id string) Files { return Files(filepath.Join(f.path, id)) }

// IDs are those of all VMs that have a record, in order.
func (f *Folder) IDs() ([]string, error) {
	entries, err := os.ReadDir(f.path)
	if err != nil {
		return nil, errors.Wrap(err, "cannot list VMs")
	}
	var out []string
	for _, e := range entries {
		if _, err := os.Lstat(f.Of(e.Name()).path(recordName)); err == nil && CheckID("list", e.Name()) == nil {
			out = append(out, e.Name())
		}
	}
	slices.Sort(out)
	return out, nil
}

// DropRemains removes the folders of VMs that have no record: an agent that was killed has made their config disk, and nothing more.
func (f *Folder) DropRemains() error {
	entries, err := os.ReadDir(f.path)
	if err != nil {
		return errors.Wrap(err, "cannot list VMs")
	}
	for _, e := range entries {
		at := f.Of(e.Name())
		if _, err := os.Lstat(at.path(recordName)); !errors.Is(err, fs.ErrNotExist) || CheckID("list", e.Name()) != nil || at.Free() != nil {
			continue
		}
		lock, err := filelock.TryFolder(string(at))
		if filelock.Held(err) != nil {
			continue // a process still runs there
		}
		if err == nil {
			err = at.Remove()
			_ = lock.Release()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Files are the files of one VM: its folder.
type Files string

func (f Files) path(name string) string { return filepath.Join(string(f), name) }

// QMP is the socket on which QEMU takes commands, Console that of the guest's serial console.
func (f Files) QMP() string { return f.path(qmpName) }

// Console is the socket of the guest's serial console.
func (f Files) Console() string { return f.path(consoleName) }

// Config is the file of its config disk.
func (f Files) Config() string { return f.path(configName) }

// Free returns Exist when a VM without a record has no place: something that isn't croft's is there. What a killed agent has left
// has the names of a VM's files only.
func (f Files) Free() error {
	info, err := os.Lstat(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	foreign := err == nil && !info.IsDir()
	var entries []fs.DirEntry
	if err == nil && !foreign {
		entries, err = os.ReadDir(string(f))
	}
	if err != nil {
		return errors.Wrapf(err, "cannot look at the folder of VM %s", filepath.Base(string(f)))
	}
	ours := []string{recordName, configName, pidName, qmpName, consoleName}
	for _, e := range entries {
		foreign = foreign || !slices.Contains(ours, e.Name()) && !atomicfile.Temporary(e.Name())
	}
	if foreign {
		return node.Errorf(node.Exist, "cannot make VM %s: there is something in the place of its files that isn't croft's", filepath.Base(string(f)))
	}
	return nil
}

// Make makes the folder with a record and, if there is one, a config disk.
func (f Files) Make(r Record, config []byte) error {
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return errors.Wrapf(err, "cannot make the folder of VM %s", r.Spec.ID)
	}
	if err := f.WriteConfig(config); err != nil {
		return err
	}
	return f.Write(r)
}

// WriteConfig replaces the config disk; none removes it.
func (f Files) WriteConfig(config []byte) error {
	if len(config) == 0 {
		err := os.Remove(f.Config())
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return errors.Wrap(err, "cannot remove a config disk")
	}
	return atomicfile.WriteFile(f.Config(), config, 0o600)
}

// Write replaces the record.
func (f Files) Write(r Record) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return errors.Wrapf(err, "cannot record VM %s", r.Spec.ID)
	}
	return atomicfile.WriteFile(f.path(recordName), raw, 0o600)
}

// Read reads the record. NotExist when there is none.
func (f Files) Read() (Record, error) {
	raw, err := os.ReadFile(f.path(recordName))
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, node.Errorf(node.NotExist, "there is no VM %s", filepath.Base(string(f)))
	}
	if err != nil {
		return Record{}, errors.Wrapf(err, "cannot read the record of VM %s", filepath.Base(string(f)))
	}
	var r Record
	return r, errors.Wrapf(json.Unmarshal(raw, &r), "cannot read %s", f.path(recordName))
}

// Remove removes all files: the record last, so that a deletion that fails can be repeated.
func (f Files) Remove() error {
	entries, err := os.ReadDir(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return errors.Wrap(err, "cannot remove the files of a VM")
	}
	for _, e := range entries {
		if e.Name() == recordName {
			continue
		}
		if err := os.RemoveAll(f.path(e.Name())); err != nil {
			return errors.Wrap(err, "cannot remove the files of a VM")
		}
	}
	return errors.Wrap(os.RemoveAll(string(f)), "cannot remove the files of a VM")
}

// lockTime is how long the agent and a VM's process wait for the lock, which the other one holds for a moment.
const lockTime = 5 * time.Second

// Hold locks the VM's folder. Busy when its process has it, or is about to end.
func (f Files) Hold(ctx context.Context) (*filelock.Lock, error) {
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	lock, err := filelock.WaitFolder(ctx, string(f))
	if ctx.Err() != nil && err != nil {
		return nil, node.Errorf(node.Busy, "cannot lock %s: a process runs the VM", f)
	}
	return lock, err
}

// Claim is called by the process that is about to become a VM's QEMU: it locks the VM for the rest of its life, and writes its
// identity. The lock's descriptor outlives exec; it gives no access to the folder's files. Busy when another process has it, or
// when the start that it is for is over: the agent ends a start only while it holds the lock.
func (f Files) Claim(attempt uint64) (*filelock.Lock, error) {
	lock, err := f.Hold(context.Background())
	if err != nil {
		return nil, err
	}
	r, err := f.Read()
	if err == nil && (r.Phase != Starting || r.Attempt != attempt) {
		err = node.Errorf(node.Busy, "cannot start VM %s: start %d is over, it is %s with start %d", r.Spec.ID, attempt, r.Phase, r.Attempt)
	}
	if err != nil {
		return nil, err
	}
	self, err := Identify(os.Getpid())
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(self)
	if err != nil {
		return nil, errors.Wrap(err, "cannot record a process")
	}
	return lock, atomicfile.WriteFile(f.path(pidName), raw, 0o600)
}

// Process returns the process that runs the VM, or is about to. Without one it returns false. Transient while a process
// has the lock and hasn't written its identity yet.
func (f Files) Process() (Process, bool, error) {
	var p Process
	raw, err := os.ReadFile(f.path(pidName))
	if err == nil && json.Unmarshal(raw, &p) == nil && p.Runs() {
		return p, true, nil
	}
	lock, err := filelock.TryFolder(string(f))
	switch {
	case filelock.Held(err) != nil:
		return Process{}, false, node.Errorf(node.Transient, "cannot tell which process runs the VM in %s: it is being started, or ends", f)
	case errors.Is(err, fs.ErrNotExist):
		return Process{}, false, nil
	case err != nil:
		return Process{}, false, err
	}
	return Process{}, false, lock.Release()
}
