package rootfs

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

const filesName = "files"

// mounts are a spec's binds and files in the order in which they are mounted.
func (s Spec) mounts(folder string) []Bind {
	all := append([]Bind{}, s.Binds...)
	for i, f := range s.Files {
		all = append(all, Bind{Source: filepath.Join(folder, filesName, strconv.Itoa(i)), Target: f.Target, ReadOnly: true, File: true})
	}
	return inOrder(all)
}

// writeFiles writes the content of a spec's files, the container's root's.
func writeFiles(folder string, spec Spec, r Range) error {
	if err := removeFiles(folder); err != nil {
		return err
	}
	dir := filepath.Join(folder, filesName)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return failed("make", dir, err)
	}
	for i, f := range spec.Files {
		name := filepath.Join(dir, strconv.Itoa(i))
		if err := os.WriteFile(name, f.Content, 0o400); err != nil {
			return failed("write", name, err)
		}
		if err := os.Chown(name, int(r.Base), int(r.Base)); err != nil {
			return failed("write", name, err)
		}
		if err := os.Chmod(name, 0o644); err != nil {
			return failed("write", name, err)
		}
	}
	return nil
}

// binder mounts into one container's root.
type binder struct {
	root   *os.File
	userns *os.File
	trees  []tree
	done   []bound
}

// bound is a mount in a container's root, as it was made.
type bound struct {
	Target string `json:"target"`
	// Path is where it is in the root, without links.
	Path string `json:"path"`
	// Source is the mounted folder or file, Identity tells whether it is still the same.
	Source   string   `json:"source"`
	Identity identity `json:"identity"`
	// mount is its ID.
	mount uint64
}

func (b *binder) close() {
	for _, t := range b.trees {
		t.Close()
	}
}

// bind mounts one folder or file.
func (b *binder) bind(m Bind) error {
	t, err := cloneTree(m.Source)
	if err != nil {
		return err
	}
	b.trees = append(b.trees, t)
	var st unix.Stat_t
	if err := unix.Fstat(int(t.Fd()), &st); err != nil {
		return failed("look at", m.Source, err)
	}
	if want, kind := wanted(m.File); st.Mode&unix.S_IFMT != want {
		return node.Errorf(node.Invalid, "cannot mount %s at %s: it isn't a %s", m.Source, m.Target, kind)
	}
	if err := b.set(t, m); err != nil {
		return err
	}
	path, err := b.place(t, m)
	if err != nil {
		return err
	}
	made := bound{Target: m.Target, Path: path, Source: m.Source}
	if !m.File { // a program may be replaced while a container has the old one
		made.Identity = identity{Device: st.Dev, Inode: st.Ino}
	}
	made.mount, err = mountID(t.File)
	b.done = append(b.done, made)
	return err
}

func wanted(file bool) (mode uint32, kind string) {
	if file {
		return unix.S_IFREG, "file"
	}
	return unix.S_IFDIR, "folder"
}

func (b *binder) set(t tree, m Bind) error {
	attributes := uint64(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV)
	if m.ReadOnly {
		attributes |= unix.MOUNT_ATTR_RDONLY
	}
	if !m.Mapped {
		return failed("set the attributes of a mount of", m.Source, t.set(attributes, nil))
	}
	if err := t.set(attributes, b.userns); err != nil {
		return mapFailed(m.Source, err)
	}
	return nil
}

// place finds the target, and attaches t there. It retries when the place is removed
// meanwhile.
func (b *binder) place(t tree, m Bind) (string, error) {
	var err error
	for range attempts {
		var p place
		if p, err = find(b.root, m.Target, m.File); err == nil {
			err = b.attach(t, m, p)
			p.Close()
			if err == nil {
				return p.path, nil
			}
		}
		if !errors.Is(err, unix.ENOENT) {
			return "", err
		}
	}
	return "", node.Errorf(node.Transient, "cannot mount at %s: others keep removing it: %w", m.Target, err)
}

func (b *binder) attach(t tree, m Bind, p place) error {
	for _, other := range b.done {
		if other.Path == p.path || strings.HasPrefix(other.Path, p.path+"/") {
			return node.Errorf(node.Invalid, "cannot mount at %s: links lead it to %s, and it would cover the mount at %s", m.Target, p.path, other.Target)
		}
	}
	return failed("mount at", m.Target, t.attach(p.File))
}

// verify checks last that each mount is at the place below the root that was found for it.
// It looks there and nowhere else: the kernel's list of mounts has whole paths, which another container
// may make as long as it likes.
func (b *binder) verify() error {
	for _, made := range b.done {
		if is, err := b.mountAt(made.Path); err != nil || is != made.mount {
			return node.Errorf(node.Transient, "cannot mount at %s: others move or unmount it (%v)", made.Target, err)
		}
	}
	return nil
}

// mountAt is the ID of the mount at a path below the root, which no link leads to.
func (b *binder) mountAt(path string) (uint64, error) {
	how := &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_SYMLINKS,
	}
	fd, err := unix.Openat2(int(b.root.Fd()), strings.TrimPrefix(path, "/"), how)
	for i := 0; i < attempts && err == unix.EAGAIN; i++ { // something was renamed meanwhile
		fd, err = unix.Openat2(int(b.root.Fd()), strings.TrimPrefix(path, "/"), how)
	}
	if err != nil {
		return 0, err
	}
	at := os.NewFile(uintptr(fd), path)
	defer at.Close()
	return mountID(at)
}
