package fs

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/supervise"
	"github.com/croft-edge/croft/provision/persist"
)

// marker is the file that names the machine. No kind begins with a dot.
const marker = ".machine"

// folder is one instance's folder.
type folder struct {
	settings Settings
	existing bool
	hook     atomicfile.Hook

	// working is full while a call uses the disk. A file server that doesn't answer keeps its caller in the kernel for ever: the
	// call is then left behind, one at most, and others give up at the end of their context.
	working chan struct{}

	// What follows is the working call's.

	// root is the folder as it was brought up; nil before.
	root    fs.FileInfo
	machine persist.MachineID
	kinds   map[persist.Kind]*atomicfile.Folder
}

func newFolder(s Settings, c Config) *folder {
	return &folder{settings: s, existing: c.Existing, hook: c.Hook, working: make(chan struct{}, 1), kinds: map[persist.Kind]*atomicfile.Folder{}}
}

// do calls work alone, and returns when it or ctx has ended. work writes nothing that its caller reads after an error.
func (f *folder) do(ctx context.Context, work func() error) error {
	late := func() error {
		return node.Errorf(node.Transient, "cannot use folder %s: its file system doesn't answer: %w", f.settings.Folder, ctx.Err())
	}
	select {
	case f.working <- struct{}{}:
	case <-ctx.Done():
		return late()
	}
	if ctx.Err() != nil { // of two that are ready, select takes any
		<-f.working
		return late()
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-f.working }()
		done <- supervise.Catch("folder "+f.settings.Folder, func() error { return kinded(work()) })
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return late()
	}
}

// Open implements place.Place.
func (f *folder) Open(ctx context.Context, machine persist.MachineID) error {
	return f.do(ctx, func() error { return f.open(machine) })
}

func (f *folder) open(machine persist.MachineID) error {
	path := f.settings.Folder
	f.forget()
	if !f.settings.Mounted && !f.existing && f.root == nil {
		if err := atomicfile.MakeFolder(path, f.hook); err != nil {
			return err
		}
	}
	info, err := f.look()
	if err != nil {
		return err
	}
	if f.existing {
		err = f.ours(machine)
	} else {
		err = f.claim(machine, f.root == nil)
	}
	if err != nil {
		return err
	}
	f.root, f.machine = info, machine
	return nil
}

// look returns the folder as it is now.
func (f *folder) look() (fs.FileInfo, error) {
	info, err := os.Lstat(f.settings.Folder)
	if err != nil {
		return nil, errors.WithStack(err)
	}
	if !info.IsDir() {
		return nil, node.Errorf(node.Transient, "cannot use %s: it is no folder", f.settings.Folder)
	}
	if f.settings.Mounted {
		var root, here unix.Stat_t
		if err := unix.Stat("/", &root); err != nil {
			return nil, errors.WithStack(err)
		}
		if err := unix.Stat(f.settings.Folder, &here); err != nil {
			return nil, errors.WithStack(err)
		}
		if root.Dev == here.Dev {
			return nil, node.Errorf(node.Transient, "cannot use folder %s: nothing is mounted there", f.settings.Folder)
		}
	}
	return info, nil
}

// claim checks that the folder is this machine's. One that no machine has used becomes this machine's if may is set: if it wasn't in use
// before, and would be an empty mount point now.
func (f *folder) claim(machine persist.MachineID, may bool) error {
	err := f.ours(machine)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !may {
		return node.Errorf(node.Transient, "cannot use folder %s: it isn't the folder that was in use before: it has no file %q", f.settings.Folder, marker)
	}
	// Only a link fails if another machine comes first, on NFS too.
	temp, err := os.CreateTemp(f.settings.Folder, ".claim-*")
	if err != nil {
		return errors.WithStack(err)
	}
	defer func() { _ = os.Remove(temp.Name()) }()
	_, err = temp.WriteString(string(machine) + "\n")
	if err == nil {
		err = temp.Sync()
	}
	if shut := temp.Close(); err == nil {
		err = shut
	}
	if err == nil {
		err = os.Link(temp.Name(), filepath.Join(f.settings.Folder, marker))
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return errors.WithStack(err)
	}
	if err := f.settle(f.settings.Folder); err != nil {
		return err
	}
	return f.ours(machine)
}

// sync makes the names in a folder durable, as a step of the hook. A file system that can't be written to has nothing to make durable.
func (f *folder) sync(path string) error {
	point := atomicfile.Point{Op: atomicfile.SyncDir, Path: path}
	if f.hook != nil {
		if err := f.hook(point); err != nil {
			return err
		}
	}
	if err := f.settle(path); err != nil && !errors.Is(err, unix.EROFS) && !errors.Is(err, unix.EINVAL) {
		return err
	}
	if point.After = true; f.hook != nil {
		return f.hook(point)
	}
	return nil
}

func (f *folder) settle(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return errors.WithStack(err)
	}
	defer dir.Close()
	return errors.WithStack(dir.Sync())
}

// ours reads which machine the folder belongs to; fs.ErrNotExist when no machine has used it.
func (f *folder) ours(machine persist.MachineID) error {
	text, err := readAtMost(filepath.Join(f.settings.Folder, marker), persist.MaxName+1)
	if node.KindOf(err) == node.Invalid {
		return node.WithKind(node.Refused, err)
	}
	if err != nil {
		return err
	}
	owner, whole := bytes.CutSuffix(text, []byte("\n"))
	switch {
	case !whole:
		return node.Errorf(node.Refused, "cannot use folder %s: its file %q is damaged: write the machine's ID and a newline there, if the folder is its", f.settings.Folder, marker)
	case string(owner) != string(machine):
		return node.Errorf(node.Refused, "cannot use folder %s for machine %s: it belongs to machine %q", f.settings.Folder, machine, owner)
	}
	return nil
}

// same checks that the folder is still the one that was brought up.
func (f *folder) same() error {
	info, err := f.look()
	if err == nil && !os.SameFile(info, f.root) {
		err = node.Errorf(node.Transient, "cannot use folder %s: it isn't the folder that was in use before", f.settings.Folder)
	}
	if err == nil {
		err = f.ours(f.machine)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return node.WithKind(node.Transient, err) // the folder is missing, not the object
	}
	return err
}

// forget closes the folders of kinds.
func (f *folder) forget() {
	for kind, open := range f.kinds {
		_ = open.Close()
		delete(f.kinds, kind)
	}
}

// of opens the folder of a kind.
func (f *folder) of(kind persist.Kind) (*atomicfile.Folder, error) {
	if err := f.same(); err != nil {
		f.forget()
		return nil, err
	}
	path := filepath.Join(f.settings.Folder, string(kind))
	if open := f.kinds[kind]; open != nil {
		if _, err := os.Lstat(path); err == nil {
			return open, nil
		}
		_ = open.Close()
		delete(f.kinds, kind)
	}
	open, err := atomicfile.Open(path, f.hook)
	if err != nil {
		return nil, err
	}
	f.kinds[kind] = open
	return open, nil
}

// Put implements place.Place.
func (f *folder) Put(ctx context.Context, kind persist.Kind, key persist.Key, body []byte) error {
	return f.do(ctx, func() error {
		to, err := f.of(kind)
		if err != nil {
			return notMissing(err)
		}
		return notMissing(to.Write(string(key), body))
	})
}

// Delete implements place.Place.
func (f *folder) Delete(ctx context.Context, kind persist.Kind, key persist.Key) error {
	return f.do(ctx, func() error {
		from, err := f.of(kind)
		if err != nil {
			return notMissing(err)
		}
		return notMissing(from.Remove(string(key)))
	})
}

// Get implements place.Place.
func (f *folder) Get(ctx context.Context, kind persist.Kind, key persist.Key) ([]byte, error) {
	var body []byte
	err := f.do(ctx, func() error {
		if err := f.same(); err != nil {
			return err
		}
		read, err := readAtMost(filepath.Join(f.settings.Folder, string(kind), string(key)), persist.MaxFramed)
		if err == nil {
			body = read
			return nil
		}
		if gone := f.same(); gone != nil {
			return gone // the folder has gone meanwhile, and the object with it
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return body, nil
}

// Keys implements place.Place.
func (f *folder) Keys(ctx context.Context, kind persist.Kind) ([]persist.Key, error) {
	var keys []persist.Key
	err := f.do(ctx, func() error {
		if err := f.same(); err != nil {
			return err
		}
		// What is listed is relied on: a name that an earlier call couldn't sync must not go with the power.
		path := filepath.Join(f.settings.Folder, string(kind))
		if err := f.sync(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		entries, err := os.ReadDir(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return errors.WithStack(err)
		}
		found := make([]persist.Key, 0, len(entries))
		for _, e := range entries {
			// Temporary files, and those that NFS keeps for who still has them open, begin with a dot.
			if !strings.HasPrefix(e.Name(), ".") {
				found = append(found, persist.Key(e.Name()))
			}
		}
		keys = found
		return nil
	})
	if err != nil {
		return nil, err
	}
	return keys, nil
}

// readAtMost reads a regular file. Invalid for anything else, and for a longer one.
func readAtMost(path string, most int64) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ELOOP) {
		return nil, node.Errorf(node.Invalid, "cannot read %s: it is a link", path)
	}
	if err != nil {
		return nil, errors.WithStack(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, errors.WithStack(err)
	}
	if !info.Mode().IsRegular() || info.Size() > most {
		return nil, node.Errorf(node.Invalid, "cannot read %s: it must be a regular file of at most %d bytes", path, most)
	}
	body, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(body)) > most {
		return nil, node.Errorf(node.Invalid, "cannot read %s: it has more than %d bytes", path, most)
	}
	return body, errors.Wrapf(err, "cannot read %s", path)
}

// notMissing is the error of a change: what is missing is the folder, not the object.
func notMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return node.WithKind(node.Transient, err)
	}
	return err
}

// kinded gives the file system's errors their kinds.
func kinded(err error) error {
	var already *node.Error
	switch {
	case err == nil || errors.As(err, &already):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return node.WithKind(node.NotExist, err)
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return node.WithKind(node.NoSpace, err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.EROFS):
		return node.WithKind(node.Refused, err)
	}
	return node.WithKind(node.Transient, err)
}
