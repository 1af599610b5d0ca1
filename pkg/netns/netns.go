// Package netns makes, enters and removes network namespaces that a file keeps
// alive: a bind mount of the namespace on that file. It owns nothing else.
//
// A thread enters a namespace, not a goroutine: whatever runs in one runs in Do,
// and starts no goroutines.
package netns

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// here is the namespace of the calling thread.
func here() string { return "/proc/self/task/" + strconv.Itoa(unix.Gettid()) + "/ns/net" }

// Own opens the namespace of the caller. /proc/self shows the main thread's instead,
// on which another goroutine may have entered a namespace.
func Own() (*os.File, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	file, err := os.Open(here())
	return file, failed("open", "of the node", err)
}

// OwnInode identifies the namespace of the caller.
func OwnInode() (uint64, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return Inode(here())
}

// OfProcess is the path of a process's namespace.
func OfProcess(pid uint64) string { return "/proc/" + strconv.FormatUint(pid, 10) + "/ns/net" }

// Make makes a new namespace that path keeps. A namespace that is there stays.
func Make(path string) error {
	if _, err := Inode(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return failed("make", path, err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY|unix.O_CLOEXEC, 0o400)
	if err != nil {
		return failed("make", path, err)
	}
	file.Close()
	return onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return failed("make", path, err)
		}
		return failed("make", path, unix.Mount(here(), path, "", unix.MS_BIND, ""))
	})
}

// Remove unmounts the namespace from path and removes the file. The namespace
// ends with its last user. node.NotExist when there is no such file.
func Remove(path string) error {
	for {
		err := unix.Unmount(path, unix.MNT_DETACH)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			break // nothing is mounted there, or not any more
		}
		if err != nil {
			return failed("remove", path, err)
		}
	}
	err := os.Remove(path)
	if os.IsNotExist(err) {
		return node.Errorf(node.NotExist, "cannot remove network namespace %s: there is none", path)
	}
	return failed("remove", path, err)
}

// Inode identifies the namespace of any kind that path keeps or leads to. node.NotExist when there is none.
func Inode(path string) (uint64, error) {
	device, err := nsfs()
	var st unix.Stat_t
	if err != nil || unix.Stat(path, &st) != nil || st.Dev != device {
		return 0, node.Errorf(node.NotExist, "cannot look at namespace %s: there is none", path)
	}
	return st.Ino, nil
}

// nsfs is the device of the file system that has all namespaces of the machine, and nothing else: there is one of it.
func nsfs() (uint64, error) {
	if device := nsfsDevice.Load(); device != 0 {
		return device, nil
	}
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/net", &st); err != nil {
		return 0, err
	}
	nsfsDevice.Store(st.Dev)
	return st.Dev, nil
}

// nsfsDevice is nsfs once it was found.
var nsfsDevice atomic.Uint64

// Keeps reports whether the network namespace that Kept has once seen is mounted at path itself: at the price of one question to the kernel,
// since no two namespaces of any kind have one inode at a time.
func Keeps(path string, inode uint64) bool {
	device, err := nsfs()
	var st unix.Stat_t
	return err == nil && unix.Lstat(path, &st) == nil && st.Dev == device && st.Ino == inode
}

// Kept identifies the network namespace that is mounted at path itself: that of
// a link to one isn't it, nor is a namespace of another kind. node.NotExist when
// there is none.
func Kept(path string) (uint64, error) {
	none := node.Errorf(node.NotExist, "cannot look at network namespace %s: the file keeps none", path)
	// O_PATH: the file isn't opened before it is known to be a namespace.
	at, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, none
	}
	defer unix.Close(at)
	var fs unix.Statfs_t
	var st unix.Stat_t
	if unix.Fstatfs(at, &fs) != nil || fs.Type != unix.NSFS_MAGIC || unix.Fstat(at, &st) != nil {
		return 0, none
	}
	file, err := unix.Open("/proc/self/fd/"+strconv.Itoa(at), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, none
	}
	defer unix.Close(file)
	if kind, err := unix.IoctlRetInt(file, unix.NS_GET_NSTYPE); err != nil || kind != unix.CLONE_NEWNET {
		return 0, none
	}
	return st.Ino, nil
}

// Do runs fn on a thread that is in the namespace of path. fn's sockets,
// and the files it reads below /proc/sys/net, are that namespace's.
func Do(path string, fn func() error) error {
	file, err := os.Open(path)
	if err != nil {
		return failed("enter", path, err)
	}
	defer file.Close()
	return onThread(func() error {
		if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
			return failed("enter", path, err)
		}
		return fn()
	})
}

// New runs fn on a thread that is in a new namespace, which ends with it.
func New(fn func() error) error {
	return onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return failed("make", "for a moment", err)
		}
		return fn()
	})
}

// onThread runs fn on a thread that ends with it, so that no namespace that
// fn has entered is left behind on a thread that others use.
func onThread(fn func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if unix.Gettid() == unix.Getpid() {
			// The main thread can't end, and /proc/self/ns/net is its namespace.
			// While it waits here, the next goroutine gets another thread.
			err := onThread(fn)
			runtime.UnlockOSThread()
			done <- err
			return
		}
		done <- fn()
	}()
	return <-done
}

func failed(what, path string, err error) error {
	if err == nil {
		return nil
	}
	kind := node.Internal
	if os.IsNotExist(err) || errors.Is(err, unix.ESRCH) {
		kind = node.NotExist
	}
	return node.Errorf(kind, "cannot %s network namespace %s: %w", what, path, err)
}
