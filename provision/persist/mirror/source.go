package mirror

import (
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/persist/seal"
)

// Source is what is mirrored: names, each with a content that changes as a whole.
type Source interface {
	// Names are all names there are.
	Names() ([]string, error)
	// Read returns a name's content. NotExist when there is none any more; Invalid when it can't be mirrored.
	Read(name string) ([]byte, error)
}

// Folder is the Source of a store's folder: its records, and the files in its folders of one level, such as the store's birth and the
// damaged files in quarantine. The lock file, which is this disk's, and temporary files aren't part of it. It only reads.
func Folder(root string) Source { return folder(root) }

type folder string

// lockFile is the store's lock.
const lockFile = "lock"

// Names implements Source.
func (f folder) Names() ([]string, error) {
	top, err := f.list("")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range top {
		switch {
		case e.IsDir():
			below, err := f.list(e.Name())
			if err != nil {
				return nil, err
			}
			for _, b := range below {
				if b.Type().IsRegular() {
					names = append(names, e.Name()+"/"+b.Name())
				}
			}
		case e.Type().IsRegular() && e.Name() != lockFile:
			names = append(names, e.Name())
		}
	}
	return names, nil
}

func (f folder) list(name string) ([]fs.DirEntry, error) {
	all, err := os.ReadDir(filepath.Join(string(f), name))
	if err != nil {
		return nil, node.WithKind(node.Transient, errors.Wrapf(err, "cannot list what is mirrored, %s", path.Join(string(f), name)))
	}
	kept := all[:0]
	for _, e := range all {
		if !strings.HasPrefix(e.Name(), ".") {
			kept = append(kept, e)
		}
	}
	return kept, nil
}

// Read implements Source.
func (f folder) Read(name string) ([]byte, error) {
	if !validName(name) {
		return nil, node.Errorf(node.Invalid, "cannot mirror %q: it can't be a file of a store", name)
	}
	file, err := os.OpenFile(filepath.Join(string(f), name), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil, node.Errorf(node.NotExist, "cannot mirror %s: there is none", name)
	}
	if err != nil {
		return nil, node.WithKind(node.Transient, errors.Wrapf(err, "cannot mirror %s", name))
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, node.WithKind(node.Transient, errors.Wrapf(err, "cannot mirror %s", name))
	}
	if !info.Mode().IsRegular() || info.Size() > seal.MaxBody {
		return nil, node.Errorf(node.Invalid, "cannot mirror %s: it must be a regular file of at most %d bytes", name, seal.MaxBody)
	}
	body, err := io.ReadAll(io.LimitReader(file, seal.MaxBody+1))
	return body, node.WithKind(node.Transient, errors.Wrapf(err, "cannot mirror %s", name))
}

// validName reports whether a store may have a file of that name: NAME or FOLDER/NAME, neither hidden nor the lock.
func validName(name string) bool {
	parts := strings.Split(name, "/")
	if len(parts) > 2 || name == lockFile || len(name) > 512 {
		return false
	}
	for _, p := range parts {
		if p == "" || p[0] == '.' || strings.ContainsAny(p, "\x00\\") || len(p) > 250 {
			return false
		}
	}
	return true
}
