package unpack

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/containerd/log"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/confine"
	"github.com/croft-edge/croft/pkg/node"
)

// The descriptors of a process: the packed layer, its answer, and the socket
// with its order and folders.
const (
	fdLayer   = 0
	fdAnswer  = 1
	fdControl = 3
)

// mostFolders is a bound for the descriptors of one message, mostOpen for all: to remove a tree takes one a
// level, of which a path has 2,047 at most.
const (
	mostFolders = 253
	mostOpen    = 4096
)

// Serve is the process that Run starts. It returns its exit status.
func Serve() int {
	out := os.NewFile(fdAnswer, "answer")
	a := answer{}
	err := serve(&a, nil)
	if err != nil {
		a = failed(err)
	}
	w := bufio.NewWriter(out)
	if json.NewEncoder(w).Encode(a) != nil || w.Flush() != nil {
		return 1
	}
	return 0
}

// serve does its work; inside is called once it is confined, in tests.
func serve(a *answer, inside func() error) error {
	// No library may read a file of the layer, such as a time zone.
	time.Local = time.UTC
	log.L.Logger.SetOutput(io.Discard)
	if err := ceilings(); err != nil {
		return err
	}
	o, folders, err := receive()
	if err != nil {
		return err
	}
	if err := enter(folders[0]); err != nil {
		return err
	}
	if err := confine.Seal(calls()); err != nil {
		return node.WithKind(node.Internal, err)
	}
	if inside != nil {
		return inside()
	}
	l, err := unpackTwice(o.Bounds, folders[1:], os.NewFile(fdLayer, "layer"), o.Packed)
	*a = answer{Result: l.result(), Opaque: l.opaque.paths}
	return err
}

// ceilings sets this process's resource limits.
func ceilings() error {
	debug.SetMemoryLimit(Memory.Each * 3 / 4)
	limits := map[int]uint64{unix.RLIMIT_DATA: uint64(Memory.Each), unix.RLIMIT_CPU: uint64(Time.Each), unix.RLIMIT_NOFILE: mostOpen, unix.RLIMIT_CORE: 0}
	return node.WithKind(node.Internal, confine.Ceilings(limits))
}

// receive waits for the order and the folders: the layer's own, and those below it,
// topmost first.
func receive() (order, []int, error) {
	var o order
	defer unix.Close(fdControl)
	text, rights := make([]byte, 4096), make([]byte, unix.CmsgSpace(4*mostFolders))
	n, have, flags, _, err := unix.Recvmsg(fdControl, text, rights, unix.MSG_CMSG_CLOEXEC)
	if err != nil || flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		return o, nil, node.Errorf(node.Internal, "cannot receive the unpack request: %w (flags %x)", err, flags)
	}
	messages, err := unix.ParseSocketControlMessage(rights[:have])
	if err != nil || len(messages) != 1 {
		return o, nil, node.Errorf(node.Internal, "cannot receive folders: %d messages, %w", len(messages), err)
	}
	folders, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(folders) == 0 {
		return o, nil, node.Errorf(node.Internal, "cannot receive folders: %w", err)
	}
	if err := json.Unmarshal(text[:n], &o); err != nil {
		return o, nil, node.Errorf(node.Internal, "cannot read the unpack request: %w", err)
	}
	return o, folders, nil
}

// enter makes a folder the root. It is a mount of its own, above which is nothing.
func enter(folder int) error {
	if err := syscall.Fchdir(folder); err != nil {
		return node.Errorf(node.Internal, "cannot go to the layer: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return node.Errorf(node.Internal, "cannot make the layer the root: %w", err)
	}
	unix.Umask(0o022)
	return unix.Close(folder)
}
