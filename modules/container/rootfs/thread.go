package rootfs

import (
	"runtime"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// onThread runs fn on a thread that ends with it: its working folder, umask
// and file system IDs are its own, and nobody gets it afterwards.
func onThread(fn func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if unix.Gettid() == unix.Getpid() {
			// The main thread can't end. While it waits here, the next
			// goroutine gets another one.
			err := onThread(fn)
			runtime.UnlockOSThread()
			done <- err
			return
		}
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			done <- errors.Wrap(err, "cannot part a thread's folder from the others'")
			return
		}
		unix.Umask(0)
		done <- fn()
	}()
	return <-done
}

// asOwner is do on a thread whose file system IDs are the range's first: what
// it makes is the container's root's, in an id-mapped mount too, where the
// node's root is nobody and can't make anything. Its capabilities stay.
func (s space) asOwner(r Range, fn func() error) error {
	return s.do(func() error {
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var caps [2]unix.CapUserData
		if err := unix.Capget(&header, &caps[0]); err != nil {
			return errors.Wrap(err, "cannot read a thread's capabilities")
		}
		if err := unix.Setfsgid(int(r.Base)); err != nil {
			return errors.Wrap(err, "cannot set a thread's group")
		}
		if err := unix.Setfsuid(int(r.Base)); err != nil {
			return errors.Wrap(err, "cannot set a thread's user")
		}
		if err := unix.Capset(&header, &caps[0]); err != nil {
			return errors.Wrap(err, "cannot keep a thread's capabilities")
		}
		return fn()
	})
}
