package program

import (
	"bytes"
	"debug/elf"
	"io"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

const (
	// deepest is how long a chain of interpreters may be.
	deepest = 5
	// headSize is how much of a file is read for the first line of a script.
	headSize = 256
)

// image is a container's root, and the process that is to be started in it.
type image struct {
	root    int
	base    uint32
	process *specs.Process
}

// Check is Invalid, with the reason, when the process can't be started. base is the ID on
// the node of the container's ID 0.
func Check(root string, base uint32, process *specs.Process) error {
	if process == nil || len(process.Args) == 0 || process.Args[0] == "" {
		return node.Errorf(node.Invalid, "cannot start the container: neither its image nor its entry point say what to run")
	}
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return node.Errorf(node.Transient, "cannot look into %s: %w", root, err)
	}
	defer unix.Close(fd)
	i := image{root: fd, base: base, process: process}
	return i.find(process.Args[0])
}

// find looks for a program as execvp does.
func (i image) find(name string) error {
	if strings.Contains(name, "/") {
		if !path.IsAbs(name) {
			name = path.Join("/", i.process.Cwd, name)
		}
		return i.runnable(name, deepest)
	}
	var failed error
	for _, dir := range strings.Split(i.path(), ":") {
		if !path.IsAbs(dir) {
			dir = path.Join("/", i.process.Cwd, dir)
		}
		err := i.runnable(path.Join(dir, name), deepest)
		if err == nil {
			return nil
		}
		missing := errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR)
		if failed == nil && !missing || node.KindOf(err) == node.Transient {
			failed = err
		}
	}
	if failed != nil {
		return failed
	}
	return node.Errorf(node.Invalid, "cannot start %q: there is no such program in the image's PATH %q", name, i.path())
}

func (i image) path() string {
	for _, variable := range i.process.Env {
		if value, ok := strings.CutPrefix(variable, "PATH="); ok {
			return value
		}
	}
	return ""
}

// runnable is an error when the file at an absolute path can't be run.
func (i image) runnable(name string, depth int) error {
	if depth == 0 {
		return node.Errorf(node.Invalid, "cannot start %q: too many scripts are each other's interpreter", name)
	}
	file, err := i.open(name)
	if errors.Is(err, unix.EAGAIN) {
		return node.Errorf(node.Transient, "cannot start %q: another container changes it or has a lease on it", name)
	}
	if err != nil {
		return node.Errorf(node.Invalid, "cannot start %q: %w", name, err)
	}
	defer file.Close()
	if err := i.allowed(file, name); err != nil {
		return err
	}
	head := make([]byte, headSize)
	n, err := io.ReadFull(file, head)
	if err != nil && n == 0 {
		return node.Errorf(node.Invalid, "cannot start %q: it is empty", name)
	}
	head = head[:n]
	switch {
	case bytes.HasPrefix(head, []byte("#!")):
		return i.script(name, head, depth)
	case bytes.HasPrefix(head, []byte(elf.ELFMAG)):
		return i.binary(name, file, depth)
	}
	return node.Errorf(node.Invalid, "cannot start %q: it is neither a program for %s nor a script with #!", name, runtime.GOARCH)
}

// open opens a file inside of the root for reading.
func (i image) open(name string) (*os.File, error) {
	fd, err := unix.Openat2(i.root, strings.TrimLeft(name, "/"), &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	// Its type is checked before it is opened: opening a device or a pipe has effects.
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return nil, err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, errors.New("it isn't a file")
	}
	// Non-blocking: another container with the same volume may hold a lease on the file.
	return os.OpenFile("/proc/self/fd/"+strconv.Itoa(fd), unix.O_RDONLY|unix.O_NONBLOCK, 0)
}

// allowed is an error when the container's user may not run a file.
func (i image) allowed(file *os.File, name string) error {
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		return node.Errorf(node.Transient, "cannot look at %q: %w", name, err)
	}
	bits := uint32(0o001)
	user := i.process.User
	switch {
	case user.UID == 0:
		bits = 0o111
	case stat.Uid == i.base+user.UID:
		bits = 0o100
	case i.inGroup(stat.Gid):
		bits = 0o010
	}
	if stat.Mode&bits == 0 {
		return node.Errorf(node.Invalid, "cannot start %q: the image's user %d may not run it (mode %04o)", name, user.UID, stat.Mode&0o7777)
	}
	return nil
}

func (i image) inGroup(gid uint32) bool {
	if gid == i.base+i.process.User.GID {
		return true
	}
	for _, g := range i.process.User.AdditionalGids {
		if gid == i.base+g {
			return true
		}
	}
	return false
}

// script checks a script's interpreter.
func (i image) script(name string, head []byte, depth int) error {
	line, _, _ := strings.Cut(string(head[2:]), "\n")
	fields := strings.Fields(line)
	if len(fields) == 0 {
		return node.Errorf(node.Invalid, "cannot start %q: its first line names no interpreter", name)
	}
	interpreter := fields[0]
	if !path.IsAbs(interpreter) {
		interpreter = path.Join("/", i.process.Cwd, interpreter)
	}
	if err := i.runnable(interpreter, depth-1); err != nil {
		return node.Errorf(node.Invalid, "cannot start %q: its interpreter can't be: %w", name, err)
	}
	return nil
}
