package atomicfile

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// tempPrefix begins the names of temporary files; Names never shows them.
const tempPrefix = ".tmp-"

// Temporary reports whether a file of that name may be one that an interrupted write has left.
func Temporary(name string) bool { return strings.HasPrefix(name, tempPrefix) }

// Mode is the mode of the files that this package writes, FolderMode of the
// folders it makes.
const (
	Mode       fs.FileMode = 0o600
	FolderMode fs.FileMode = 0o700
)

// File is a name in a folder and its new content.
type File struct {
	Name string
	Data []byte
}

// Folder writes whole files into one folder, which nobody else writes to. It
// may be used from several goroutines; writes go one after the other.
type Folder struct {
	path string
	hook Hook

	mu  sync.Mutex
	dir *os.File
}

// Open opens the folder at path, which it makes when missing, and removes the temporary files of a crash.
func Open(path string, hook Hook) (*Folder, error) {
	if err := MakeFolder(path, hook); err != nil {
		return nil, err
	}
	dir, err := os.Open(path)
	if err != nil {
		return nil, errors.Wrapf(err, "cannot open folder %s", path)
	}
	f := &Folder{path: path, hook: hook, dir: dir}
	if err := f.cleanStale(); err != nil {
		return nil, errors.Wrapf(both(err, dir.Close()), "cannot clean folder %s", path)
	}
	return f, nil
}

// MakeFolder makes the folder at path and the missing ones above it, each durable on
// return.
func MakeFolder(path string, hook Hook) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	parent := filepath.Dir(path)
	if parent != path {
		if err := MakeFolder(parent, hook); err != nil {
			return err
		}
	}
	if err := os.Mkdir(path, FolderMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return errors.Wrapf(err, "cannot make folder %s", path)
	}
	return syncFolder(parent, hook)
}

func (f *Folder) cleanStale() error {
	names, err := f.names(true)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !Temporary(name) {
			continue
		}
		if err := f.remove(name); err != nil {
			return err
		}
	}
	return nil
}

// Write replaces name's content with data. It returns once that is durable. When it
// fails before the rename, name is unchanged.
func (f *Folder) Write(name string, data []byte) error {
	return f.WriteAll([]File{{Name: name, Data: data}})
}

// WriteAll writes several files and shares the folder's fsync between them.
// When one can't be written, none is changed; a crash may leave the first few
// renamed and the others unchanged.
func (f *Folder) WriteAll(files []File) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for at := 0; at < len(files); at += openAtOnce {
		if err := f.writeTemps(files[at:min(at+openAtOnce, len(files))]); err != nil {
			f.discard(files[:min(at+openAtOnce, len(files))])
			return err
		}
	}
	for i, file := range files {
		if err := f.rename(file.Name); err != nil {
			f.discard(files[i:])
			return errors.Wrapf(err, "cannot write %s", f.join(file.Name))
		}
	}
	return f.sync()
}

// openAtOnce is how many files of a batch are open at the same time.
const openAtOnce = 64

// writeTemps writes and fsyncs the temporary files of some names. All are
// written, and their writeback begun, before the first fsync waits: the file
// system writes them together.
func (f *Folder) writeTemps(files []File) (err error) {
	open := make([]*os.File, 0, len(files))
	defer func() {
		for _, out := range open {
			err = both(err, errors.Wrapf(out.Close(), "cannot write %s", out.Name()))
		}
	}()
	for _, file := range files {
		out, err := f.writeTemp(file)
		if out != nil {
			open = append(open, out)
		}
		if err != nil {
			return errors.Wrapf(err, "cannot write %s", f.join(file.Name))
		}
	}
	if len(open) > 1 {
		for _, out := range open {
			// A hint: only the fsync below counts.
			_ = unix.SyncFileRange(int(out.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE)
		}
	}
	for i, out := range open {
		if err := f.hook.around(Sync, out.Name(), out.Sync); err != nil {
			return errors.Wrapf(err, "cannot write %s", f.join(files[i].Name))
		}
	}
	return nil
}

// writeTemp writes the temporary file of a name, and returns it open, if it is, also
// after an error.
func (f *Folder) writeTemp(file File) (*os.File, error) {
	path := f.join(tempPrefix + file.Name)
	var out *os.File
	err := f.hook.around(Write, path, func() error {
		var err error
		out, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, Mode)
		if err != nil {
			return err
		}
		_, err = out.Write(file.Data)
		return err
	})
	return out, err
}

func (f *Folder) rename(name string) error {
	path := f.join(name)
	return f.hook.around(Rename, path, func() error {
		return os.Rename(f.join(tempPrefix+name), path)
	})
}

// discard removes temporary files after a failure, as far as possible: the next
// Open removes the others.
func (f *Folder) discard(files []File) {
	for _, file := range files {
		_ = f.remove(tempPrefix + file.Name)
	}
}

func (f *Folder) remove(name string) error {
	path := f.join(name)
	return f.hook.around(Remove, path, func() error {
		err := os.Remove(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}

// Remove removes names; a missing one is no error. It returns once that is durable.
func (f *Folder) Remove(names ...string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range names {
		if err := f.remove(name); err != nil {
			return errors.Wrapf(err, "cannot remove %s", f.join(name))
		}
	}
	return f.sync()
}

// Move moves the file name to another folder of the same file system, under
// the name as. It needs no space for the content.
func (f *Folder) Move(name string, to *Folder, as string) error {
	from, target := f.join(name), to.join(as)
	err := f.hook.around(Move, target, func() error { return os.Rename(from, target) })
	if err != nil {
		return errors.Wrapf(err, "cannot move %s", from)
	}
	if err := to.Sync(); err != nil {
		return err
	}
	return f.Sync()
}

// Read returns name's content.
func (f *Folder) Read(name string) ([]byte, error) {
	data, err := os.ReadFile(f.join(name))
	return data, errors.Wrapf(err, "cannot read %s", f.join(name))
}

// Names lists the regular files in the folder, in the order of their names.
func (f *Folder) Names() ([]string, error) { return f.names(false) }

func (f *Folder) names(temporary bool) ([]string, error) {
	entries, err := os.ReadDir(f.path)
	if err != nil {
		return nil, errors.Wrapf(err, "cannot list folder %s", f.path)
	}
	var out []string
	for _, e := range entries {
		if !e.Type().IsRegular() || Temporary(e.Name()) && !temporary {
			continue
		}
		out = append(out, e.Name())
	}
	return out, nil
}

// Sync makes renames and removals in the folder durable.
func (f *Folder) Sync() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sync()
}

func (f *Folder) sync() error {
	err := f.hook.around(SyncDir, f.path, f.dir.Sync)
	return errors.Wrapf(err, "cannot sync folder %s", f.path)
}

// Close closes the folder.
func (f *Folder) Close() error {
	return errors.Wrapf(f.dir.Close(), "cannot close folder %s", f.path)
}

func (f *Folder) join(name string) string { return filepath.Join(f.path, name) }
