package links

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// TestNoChildHasANewTapOpen: a process that is forked while a tap is made doesn't hold its device, which one process
// alone may have open. A child has its parent's descriptors while its network namespace is made, which takes a while.
func TestNoChildHasANewTapOpen(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var forks sync.WaitGroup
	defer func() { cancel(); forks.Wait() }()
	for range 4 {
		forks.Go(func() {
			for ctx.Err() == nil {
				child := exec.Command("/bin/true")
				child.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
				if err := child.Run(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // for ever: the thread ends with its namespace
		failed <- makeAndOpen(30)
	}()
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
}

// makeAndOpen makes taps in a namespace of the thread's own, and opens each at once.
func makeAndOpen(n int) error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	for i := range n {
		name := fmt.Sprint("t", i)
		if err := addTap(name); err != nil {
			return err
		}
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		request, err := unix.NewIfreq(name)
		if err != nil {
			return err
		}
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
		_ = unix.Close(fd)
		if err != nil {
			return fmt.Errorf("opening %s, the %d. that was made: %w", name, i+1, err)
		}
		if err := netlink.LinkDel(&netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Name: name}}); err != nil {
			return err
		}
	}
	return nil
}
