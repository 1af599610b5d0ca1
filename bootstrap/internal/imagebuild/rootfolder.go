package imagebuild

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// RootFolder is the folder that becomes the root file system. Its methods take paths as they are in the image; none
// replaces what is there. Modes are those given, whatever the process's umask.
type RootFolder string

// MakeRootFolder makes a folder in which /bin, /sbin, /lib and /lib64 are links to those in /usr.
func MakeRootFolder(dir string) (RootFolder, error) {
	r := RootFolder(dir)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return r, err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return r, err
	}
	for _, name := range mergedFolders() {
		if err := r.Folder("usr/"+name, 0o755); err != nil {
			return r, err
		}
		if err := os.Symlink("usr/"+name, filepath.Join(dir, name)); err != nil {
			return r, err
		}
	}
	return r, nil
}

// At is where a path of the image is on this machine.
func (r RootFolder) At(name string) string { return filepath.Join(string(r), Place(name)) }

// Has tells whether something is at a path.
func (r RootFolder) Has(name string) bool {
	_, err := os.Lstat(r.At(name))
	return err == nil
}

// Folder makes a folder and those above it, with mode 0755; one that is there gets the mode.
func (r RootFolder) Folder(name string, mode fs.FileMode) error {
	at := Place(name)
	for i := range at {
		if at[i] == '/' {
			if err := r.oneFolder(at[:i], 0o755, false); err != nil {
				return err
			}
		}
	}
	return r.oneFolder(at, mode, true)
}

func (r RootFolder) oneFolder(at string, mode fs.FileMode, change bool) error {
	name := filepath.Join(string(r), at)
	info, err := os.Lstat(name)
	switch {
	case err == nil && !info.IsDir():
		return fmt.Errorf("cannot make folder /%s: there is something else", at)
	case err == nil && !change:
		return nil
	case err != nil:
		if err := os.Mkdir(name, 0o755); err != nil {
			return err
		}
	}
	return os.Chmod(name, mode)
}

// File writes a file.
func (r RootFolder) File(name, content string, mode fs.FileMode) error {
	return r.write(name, strings.NewReader(content), mode)
}

// Copy copies a file of this machine; its mode is 0755 if anybody may execute it, else 0644.
func (r RootFolder) Copy(name, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("cannot copy %s: it is no regular file", from)
	}
	mode := fs.FileMode(0o644)
	if info.Mode()&0o111 != 0 {
		mode = 0o755
	}
	return r.write(name, in, mode)
}

func (r RootFolder) write(name string, content io.Reader, mode fs.FileMode) error {
	if err := r.Folder(path.Dir(Place(name)), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(r.At(name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("cannot write /%s: %w", Place(name), err)
	}
	defer out.Close()
	if _, err := io.Copy(out, content); err != nil {
		return err
	}
	if err := out.Chmod(mode); err != nil {
		return err
	}
	return out.Close()
}

// Link makes a symbolic link to another path of the image. It is relative, so that it also leads there when the image
// is mounted elsewhere.
func (r RootFolder) Link(name, target string) error {
	at := Place(name)
	if err := r.Folder(path.Dir(at), 0o755); err != nil {
		return err
	}
	relative, err := filepath.Rel(path.Dir("/"+at), "/"+Place(target))
	if err != nil {
		return err
	}
	return os.Symlink(relative, filepath.Join(string(r), at))
}
