package fakenode

import (
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"
)

// file is a file on a fake file system. Only short contents are kept.
type file struct {
	size uint64
	data []byte
}

// Files are the files on a Storage's file systems. It implements the Disk of the
// storage suite.
type Files struct{ Storage *Storage }

// Write writes a file below a file system's path, as a workload does.
func (d Files) Write(path string, data []byte) error {
	_, err := d.write(path, file{uint64(len(data)), data})
	return err
}

// Fill writes size bytes to a file, or as many as fit: then the error is EDQUOT.
func (d Files) Fill(path string, size uint64) (uint64, error) {
	return d.write(path, file{size: size})
}

func (d Files) write(path string, one file) (uint64, error) {
	d.Storage.mu.Lock()
	defer d.Storage.mu.Unlock()
	f, name, err := d.at(path)
	if err != nil {
		return 0, err
	}
	delete(f.files, name)
	var full error
	if free := f.Size - min(f.Size, f.used()); one.size > free {
		one, full = file{size: free}, unix.EDQUOT
	}
	f.files[name] = one
	return one.size, full
}

// Read returns the content of a file that was written by Write.
func (d Files) Read(path string) ([]byte, error) {
	d.Storage.mu.Lock()
	defer d.Storage.mu.Unlock()
	f, name, err := d.at(path)
	if err != nil {
		return nil, err
	}
	one, ok := f.files[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return one.data, nil
}

// Remove removes a file.
func (d Files) Remove(path string) error {
	d.Storage.mu.Lock()
	defer d.Storage.mu.Unlock()
	f, name, err := d.at(path)
	if err != nil {
		return err
	}
	delete(f.files, name)
	return nil
}

// Exists reports whether a file system or a file has that path.
func (d Files) Exists(path string) (bool, error) {
	d.Storage.mu.Lock()
	defer d.Storage.mu.Unlock()
	for _, f := range d.Storage.have {
		if path == f.Path {
			return true, nil
		}
		name, inside := strings.CutPrefix(path, f.Path+"/")
		if _, ok := f.files[name]; inside && ok {
			return true, nil
		}
	}
	return false, nil
}

// Names are the names of the files in a file system. fs.ErrNotExist when no file
// system has that path.
func (d Files) Names(dir string) ([]string, error) {
	d.Storage.mu.Lock()
	defer d.Storage.mu.Unlock()
	f, _, err := d.at(dir + "/")
	if err != nil {
		return nil, err
	}
	return sorted(f.files), nil
}

// Sync does nothing: the use of a fake file system is always up to date.
func (d Files) Sync(string) error { return nil }

// at returns the file system that holds a path, and the rest of the path.
func (d Files) at(path string) (*filesystem, string, error) {
	for _, f := range d.Storage.have {
		if name, ok := strings.CutPrefix(path, f.Path+"/"); ok {
			return f, name, nil
		}
	}
	return nil, "", fs.ErrNotExist
}
