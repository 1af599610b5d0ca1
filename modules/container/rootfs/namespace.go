package rootfs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/containerd/containerd/v2/pkg/sys"
	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
)

// The files that keep a container's namespaces.
const (
	userName = "user"
	netName  = "net"
)

// namespaces are a container's, by their inodes.
type namespaces struct {
	User uint64 `json:"user"`
	Net  uint64 `json:"net"`
}

// attempts is the number of tries for a step that other processes may disturb.
const attempts = 8

// inNamespaces runs fn with a process that is in a new user namespace, with
// the IDs of r, and in a new network namespace of that one. The process does
// nothing and ends with fn: it is this program again, which everybody must be
// allowed to execute, stopped before its first step. It also ends with the thread that started it, and
// another goroutine may end that: then it is tried again.
func inNamespaces(r Range, fn func(pid int) error) (err error) {
	ids := fmt.Sprintf("0:%d:%d", r.Base, r.Size)
	for range attempts {
		var own error
		err = sys.UnshareAfterEnterUserns(ids, ids, unix.CLONE_NEWNET, func(pid int) error {
			own = fn(pid)
			return own
		})
		if err == nil || own != nil && !errors.Is(own, unix.ENOENT) && !errors.Is(own, unix.ESRCH) {
			return err
		}
	}
	return errors.Wrap(err, "cannot make a user and a network namespace")
}

// pin makes namespaces that the folder's files keep.
func pin(folder string, r Range) (namespaces, error) {
	if err := unpin(folder); err != nil {
		return namespaces{}, err
	}
	err := inNamespaces(r, func(pid int) error {
		for _, name := range []string{userName, netName} {
			file := filepath.Join(folder, name)
			if err := unmount(file); err != nil { // of an attempt before
				return err
			}
			if err := os.WriteFile(file, nil, 0o400); err != nil {
				return err
			}
			if err := unix.Mount("/proc/"+strconv.Itoa(pid)+"/ns/"+name, file, "", unix.MS_BIND, ""); err != nil {
				return errors.Wrapf(err, "cannot keep a namespace at %s", file)
			}
		}
		return nil
	})
	if err != nil {
		return namespaces{}, err
	}
	return pinned(folder)
}

// unpin lets go of the folder's namespaces, and removes their files.
func unpin(folder string) error {
	for _, name := range []string{netName, userName} {
		file := filepath.Join(folder, name)
		if err := unmount(file); err != nil {
			return err
		}
		if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
			return errors.Wrap(err, "cannot remove a namespace's file")
		}
	}
	return nil
}

// pinned are the namespaces that the folder's files keep; NotExist names a
// missing one.
func pinned(folder string) (n namespaces, err error) {
	if n.User, err = namespaceAt(folder, userName); err != nil {
		return n, err
	}
	n.Net, err = namespaceAt(folder, netName)
	return n, err
}

func namespaceAt(folder, name string) (uint64, error) {
	file := filepath.Join(folder, name)
	inode, err := netns.Inode(file)
	if err != nil {
		return 0, node.Errorf(node.NotExist, "its %s namespace isn't kept any more", name)
	}
	return inode, nil
}

// resident is the ID of a process in a user namespace, 0 when there is none.
func resident(namespace uint64) (pid int, err error) {
	want := fmt.Sprintf("user:[%d]", namespace)
	dir, err := os.Open("/proc")
	if err != nil {
		return 0, errors.Wrap(err, "cannot look for processes")
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return 0, errors.Wrap(err, "cannot look for processes")
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if is, err := os.Readlink("/proc/" + name + "/ns/user"); err == nil && is == want && lives(name) {
			return pid, nil
		}
	}
	return 0, nil
}

// lives reports whether a process has a thread that hasn't ended. A killed process keeps its number, and
// its user namespace, until its parent reaps it; if its shim was killed too, the parent is the
// machine's init. Its first thread may be over while others go on.
func lives(pid string) bool {
	all, _ := filepath.Glob("/proc/" + pid + "/task/[0-9]*/stat")
	for _, stat := range all {
		raw, err := os.ReadFile(stat)
		if err != nil {
			continue
		}
		// The name is in parentheses and may hold anything; the state follows.
		_, state, found := bytes.Cut(raw[bytes.LastIndexByte(raw, ')')+1:], []byte(" "))
		if found && !bytes.HasPrefix(state, []byte("Z")) && !bytes.HasPrefix(state, []byte("X")) {
			return true
		}
	}
	return false
}
