package durable

import (
	stderrors "errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/node"
)

// FS keeps objects as files below a folder: "name" is root/name, and
// "folder/name" is root/folder/name.
type FS struct {
	root string
	hook atomicfile.Hook

	mu      sync.Mutex
	folders map[string]*atomicfile.Folder
}

// OpenFS opens the folder root, and creates it if missing. hook may be nil; see atomicfile.Hook.
func OpenFS(root string, hook atomicfile.Hook) (*FS, error) {
	f := &FS{root: root, hook: hook, folders: map[string]*atomicfile.Folder{}}
	if _, err := f.folder(""); err != nil {
		return nil, err
	}
	return f, nil
}

// folder opens a folder at its first use.
func (f *FS) folder(name string) (*atomicfile.Folder, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if open, ok := f.folders[name]; ok {
		return open, nil
	}
	open, err := atomicfile.Open(filepath.Join(f.root, name), f.hook)
	if err != nil {
		return nil, kinded(err)
	}
	f.folders[name] = open
	return open, nil
}

// at returns the folder that name is in, and its name there.
func (f *FS) at(name string) (*atomicfile.Folder, string, error) {
	if err := CheckName(name); err != nil {
		return nil, "", err
	}
	dir, file := filepath.Split(name)
	folder, err := f.folder(filepath.Clean("/" + dir)[1:])
	return folder, file, err
}

// Put implements Provider. Objects of one folder share its fsync.
func (f *FS) Put(objects ...Object) error {
	var order []*atomicfile.Folder
	files := map[*atomicfile.Folder][]atomicfile.File{}
	names := map[string]bool{}
	for _, o := range objects {
		if names[o.Name] {
			return node.Errorf(node.Invalid, "cannot put %s: it is given twice", o.Name)
		}
		names[o.Name] = true
		folder, name, err := f.at(o.Name)
		if err != nil {
			return written(err)
		}
		if _, seen := files[folder]; !seen {
			order = append(order, folder)
		}
		files[folder] = append(files[folder], atomicfile.File{Name: name, Data: o.Data})
	}
	for _, folder := range order {
		if err := folder.WriteAll(files[folder]); err != nil {
			return written(kinded(err))
		}
	}
	return nil
}

// Get implements Provider.
func (f *FS) Get(name string) ([]byte, error) {
	folder, file, err := f.at(name)
	if err != nil {
		return nil, err
	}
	data, err := folder.Read(file)
	return data, kinded(err)
}

// Delete implements Provider. Names of one folder share its fsync.
func (f *FS) Delete(names ...string) error {
	var order []*atomicfile.Folder
	files := map[*atomicfile.Folder][]string{}
	for _, name := range names {
		folder, file, err := f.at(name)
		if err != nil {
			return err
		}
		if _, seen := files[folder]; !seen {
			order = append(order, folder)
		}
		files[folder] = append(files[folder], file)
	}
	for _, folder := range order {
		if err := folder.Remove(files[folder]...); err != nil {
			return kinded(err)
		}
	}
	return nil
}

// Move implements Provider.
func (f *FS) Move(from, to string) error {
	source, name, err := f.at(from)
	if err != nil {
		return err
	}
	target, as, err := f.at(to)
	if err != nil {
		return err
	}
	return kinded(source.Move(name, target, as))
}

// List implements Provider.
func (f *FS) List(folder string) ([]string, error) {
	if folder != "" {
		if err := CheckName(folder); err != nil {
			return nil, err
		}
		if _, err := os.Stat(filepath.Join(f.root, folder)); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
	}
	open, err := f.folder(folder)
	if err != nil {
		return nil, err
	}
	names, err := open.Names()
	if err != nil || folder == "" {
		return names, kinded(err)
	}
	for i, name := range names {
		names[i] = folder + "/" + name
	}
	return names, nil
}

// Close implements Provider.
func (f *FS) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []error
	for _, folder := range f.folders {
		all = append(all, folder.Close())
	}
	f.folders = map[string]*atomicfile.Folder{}
	return kinded(stderrors.Join(all...))
}

// written gives the error of a write its kind: a folder that is missing says nothing about
// the object, which can be written once the folder is back.
func written(err error) error {
	if node.KindOf(err) == node.NotExist {
		return node.WithKind(node.Internal, err)
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
	}
	return node.WithKind(node.Internal, err)
}
