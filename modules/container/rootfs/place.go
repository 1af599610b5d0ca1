package rootfs

import (
	"os"
	"path"
	"strings"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// The bounds of a path to a target: links as in the kernel, steps so that the
// walk ends, folders and bytes so that the list of mounts stays readable.
const (
	mostLinks = 40
	mostSteps = 4096
	mostDepth = 128
)

// place is an open folder or file in a container's root, and its path there
// when it was found, without links.
type place struct {
	*os.File
	path string
}

// walk is the way to a target, one name after the other. Each is opened in the
// open folder before it, never as a link: whatever is swapped meanwhile, the way
// stays inside the root, and nothing is made outside.
type walk struct {
	root   *os.File
	target string
	// file is whether a file is wanted, else a folder.
	file bool
	// dirs are the folders below the root that lead to where it is.
	dirs  []place
	rest  []string
	links int
}

// find opens the place of a target below root, and makes missing folders on the way.
func find(root *os.File, target string, file bool) (place, error) {
	w := &walk{root: root, target: target, file: file, rest: names(target)}
	defer w.back(0)
	for range mostSteps {
		if len(w.rest) == 0 {
			return w.arrived()
		}
		name := w.rest[0]
		w.rest = w.rest[1:]
		if name == ".." {
			w.back(max(len(w.dirs)-1, 0))
			continue
		}
		found, err := w.enter(name)
		if err != nil || found.File != nil {
			return found, err
		}
	}
	return place{}, w.wrong("its links lead in a circle")
}

// names are those of a path; an empty one and "." lead nowhere.
func names(p string) []string {
	var out []string
	for name := range strings.SplitSeq(p, "/") {
		if name != "" && name != "." {
			out = append(out, name)
		}
	}
	return out
}

// arrived is where a way to a folder ends.
func (w *walk) arrived() (place, error) {
	if len(w.dirs) == 0 {
		return place{}, w.wrong("it is the root itself")
	}
	if w.file {
		return place{}, w.wrong("a file is needed there, and %s is a folder", w.here())
	}
	last := w.dirs[len(w.dirs)-1]
	w.dirs = w.dirs[:len(w.dirs)-1]
	return last, nil
}

// enter steps into a name. The place is empty unless it is the wanted file.
func (w *walk) enter(name string) (place, error) {
	at := path.Join(w.here(), name)
	switch {
	case len(w.dirs) == 0 && kernels(name):
		return place{}, w.wrong("it leads to /%s, which is the kernel's", name)
	case len(w.dirs) >= mostDepth || len(at) > longest:
		return place{}, w.wrong("it leads deeper than %d folders or %d bytes", mostDepth, longest)
	}
	f, err := w.open(name)
	if err != nil {
		return place{}, w.failed(at, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		f.Close()
		return place{}, w.failed(at, err)
	}
	wantFile := w.file && len(w.rest) == 0
	switch kind := st.Mode & unix.S_IFMT; {
	case kind == unix.S_IFLNK:
		defer f.Close()
		return place{}, w.follow(f, at)
	case kind == unix.S_IFDIR:
		w.dirs = append(w.dirs, place{File: f, path: at})
		return place{}, nil
	case kind == unix.S_IFREG && wantFile:
		return place{File: f, path: at}, nil
	case kind == unix.S_IFREG:
		err = w.wrong("a folder is needed there, and %s is a file", at)
	default:
		err = w.wrong("%s is a device, pipe or socket", at)
	}
	f.Close()
	return place{}, err
}

// follow puts the target of a link before the rest of the way.
func (w *walk) follow(link *os.File, at string) error {
	if w.links++; w.links > mostLinks {
		return w.wrong("it leads over more than %d links", mostLinks)
	}
	buffer := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(link.Fd()), "", buffer)
	if err != nil {
		return w.failed(at, err)
	}
	to := string(buffer[:n])
	if path.IsAbs(to) {
		w.back(0)
	}
	w.rest = append(names(to), w.rest...)
	return nil
}

// open opens a name, and makes it when it isn't there.
func (w *walk) open(name string) (*os.File, error) {
	how := &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
	}
	var err error
	for range attempts { // others may make and remove it meanwhile
		var fd int
		if fd, err = unix.Openat2(w.fd(), name, how); err == nil {
			return os.NewFile(uintptr(fd), name), nil
		}
		if errors.Is(err, unix.ENOENT) {
			err = w.create(name)
		}
		if err != nil && !errors.Is(err, unix.EEXIST) && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return nil, err
		}
	}
	return nil, node.Errorf(node.Transient, "others make and remove it all the time: %w", unix.EAGAIN)
}

func (w *walk) create(name string) error {
	if !w.file || len(w.rest) > 0 {
		return unix.Mkdirat(w.fd(), name, 0o755)
	}
	fd, err := unix.Openat(w.fd(), name, unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// back closes the folders from the n-th on: the n-1st is where it is then.
func (w *walk) back(n int) {
	for _, d := range w.dirs[n:] {
		d.Close()
	}
	w.dirs = w.dirs[:n]
}

func (w *walk) fd() int {
	if len(w.dirs) == 0 {
		return int(w.root.Fd())
	}
	return int(w.dirs[len(w.dirs)-1].Fd())
}

func (w *walk) here() string {
	if len(w.dirs) == 0 {
		return "/"
	}
	return w.dirs[len(w.dirs)-1].path
}

func (w *walk) wrong(format string, args ...any) error {
	return node.Errorf(node.Invalid, "cannot mount at %s: "+format, append([]any{w.target}, args...)...)
}

func (w *walk) failed(at string, err error) error {
	return failed("mount at", w.target, errors.WithMessage(err, at))
}
