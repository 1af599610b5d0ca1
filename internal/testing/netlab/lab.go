// Package netlab makes networks for tests: network namespaces, the links between them, their addresses
// and routes, and code that runs inside. It needs root. It owns only what it made, and removes all of
// it when the test ends, also when it fails. Only tests import it.
package netlab

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Lab holds the networks of one test.
type Lab struct {
	t     testing.TB
	dir   string
	undos []func()
}

// New makes an empty lab, which is removed when t ends.
func New(t testing.TB) *Lab {
	t.Helper()
	l := &Lab{t: t, dir: t.TempDir()}
	t.Cleanup(func() {
		for i := len(l.undos) - 1; i >= 0; i-- {
			l.undos[i]()
		}
	})
	return l
}

// undo registers f for the lab's removal, in reverse order: the whole lab is removed in one cleanup, so
// that cleanups registered after New can still use it.
func (l *Lab) undo(f func()) { l.undos = append(l.undos, f) }

// Namespace is a network namespace with its loopback up.
type Namespace struct {
	lab  *Lab
	name string
	path string
	file *os.File
	link *netlink.Handle
}

// Namespace makes a network namespace. Its name appears only in failures.
func (l *Lab) Namespace(name string) *Namespace {
	l.t.Helper()
	n := &Namespace{lab: l, name: name, path: filepath.Join(l.dir, name)}
	l.must(os.WriteFile(n.path, nil, 0o600), "make the file of namespace %s", name)
	l.must(pin(n.path), "make namespace %s", name)
	// Unmount before the folder is removed.
	l.undo(func() {
		if err := unix.Unmount(n.path, unix.MNT_DETACH); err != nil {
			l.t.Errorf("cannot unmount namespace %s: %v", name, err)
		}
	})
	file, err := os.Open(n.path)
	l.must(err, "open namespace %s", name)
	n.file = file
	l.undo(func() { file.Close() })
	n.link, err = netlink.NewHandleAt(netns.NsHandle(file.Fd()))
	l.must(err, "speak to namespace %s", name)
	l.undo(n.link.Close)
	// A new namespace takes these from the machine, which forwards where Docker runs, for instance.
	n.Sysctl("ipv4.ip_forward", "0")
	n.Sysctl("ipv6.conf.all.forwarding", "0")
	n.Up("lo")
	return n
}

// pin makes a network namespace that lives while it is mounted at path.
func pin(path string) error {
	failed := make(chan error, 1)
	go func() {
		// Not unlocked: the thread, which is in the new namespace, ends here.
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// The main thread doesn't end, and /proc/self/ns/net is its namespace.
			// While it waits here, the next goroutine gets another thread.
			err := pin(path)
			runtime.UnlockOSThread()
			failed <- err
			return
		}
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			failed <- err
			return
		}
		own := fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid())
		failed <- unix.Mount(own, path, "", unix.MS_BIND, "")
	}()
	return <-failed
}

func (l *Lab) must(err error, what string, args ...any) {
	l.t.Helper()
	if err != nil {
		l.t.Fatalf("netlab: cannot %s: %v", fmt.Sprintf(what, args...), err)
	}
}

// Path is the namespace's file, for setns and nsenter.
func (n *Namespace) Path() string { return n.path }

// Fd is an open file of the namespace, valid until the test ends.
func (n *Namespace) Fd() int { return int(n.file.Fd()) }

// Netlink is a netlink handle of the namespace, usable from any thread.
func (n *Namespace) Netlink() *netlink.Handle { return n.link }

// Do runs f in the namespace, on the calling goroutine. Sockets that f opens
// stay in the namespace; goroutines that it starts don't run in it. f may fail
// the test.
func (n *Namespace) Do(f func()) {
	n.lab.t.Helper()
	runtime.LockOSThread()
	before, err := os.Open("/proc/thread-self/ns/net")
	n.lab.must(err, "open the namespace of the thread")
	defer before.Close()
	n.lab.must(unix.Setns(n.Fd(), unix.CLONE_NEWNET), "enter namespace %s", n.name)
	defer func() {
		if err := unix.Setns(int(before.Fd()), unix.CLONE_NEWNET); err != nil {
			// The thread stays locked and ends with its goroutine: no other goroutine may get it.
			n.lab.t.Errorf("netlab: cannot leave namespace %s: %v", n.name, err)
			return
		}
		runtime.UnlockOSThread()
	}()
	f()
}

// Sysctl writes a network setting, such as "ipv4.ip_forward" or
// "ipv4/conf/eth0.5/rp_filter".
func (n *Namespace) Sysctl(name, value string) {
	n.lab.t.Helper()
	if !strings.Contains(name, "/") {
		name = strings.ReplaceAll(name, ".", "/")
	}
	n.Do(func() {
		n.lab.must(os.WriteFile("/proc/sys/net/"+name, []byte(value), 0), "set %s in namespace %s", name, n.name)
	})
}

// Forward makes the namespace a router.
func (n *Namespace) Forward() {
	n.lab.t.Helper()
	n.Sysctl("ipv4.ip_forward", "1")
	n.Sysctl("ipv6.conf.all.forwarding", "1")
}
