package confine_test

import (
	"errors"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/confine"
)

// TestSupervise: an asked call gets the listener's answer, a refused one its error, and all others are made. The listener learns of the end of
// what it supervises, and when it is closed asked calls fail.
func TestSupervise(t *testing.T) {
	started, open := make(chan confine.Listener, 1), make(chan struct{})
	done := onAThread(func() {
		defer close(started)
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			t.Error(err)
			return
		}
		l, err := confine.Supervise([]uint32{unix.SYS_SYSINFO}, []confine.Refusal{
			{Number: unix.SYS_SYNC, Error: unix.EMLINK},
			{Number: unix.SYS_PERSONALITY, Error: unix.EDOM},
			{Number: unix.SYS_GETPRIORITY, Argument: 1, Mask: 0xff00, Values: []uint32{0x1200, 0x3400}, Error: unix.ENOTTY},
		})
		if err != nil {
			t.Error(err)
			return
		}
		tryCalls(t, map[string]attempt{
			"refused":                                {unix.SYS_SYNC, 0, 0, unix.EMLINK},
			"refused with any argument":              {unix.SYS_PERSONALITY, 0xffffffff, 7, unix.EDOM},
			"refused by its argument":                {unix.SYS_GETPRIORITY, 9, 0x12ff, unix.ENOTTY},
			"refused by another":                     {unix.SYS_GETPRIORITY, 9, 0x3400, unix.ENOTTY},
			"refused by the lower bits":              {unix.SYS_GETPRIORITY, 9, 0x1_0000_3400, unix.ENOTTY},
			"made with another argument":             {unix.SYS_GETPRIORITY, 9, 0x1000, unix.EINVAL},
			"made, as no rule has it":                {unix.SYS_GETPPID, 0, 0, 0},
			"a call of another set, or of no set":    {0x40000000 | unix.SYS_SYNC, 0, 0, unix.ENOSYS},
			"a listener of its own":                  {unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, unix.EBUSY},
			"a listener of its own with other flags": {unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_LOG, unix.EBUSY},
		})
		started <- l
		tryCalls(t, map[string]attempt{"asked": {unix.SYS_SYSINFO, 0x77, 0x88, unix.EXDEV}})
		tryCalls(t, map[string]attempt{"asked, and answered with nothing": {unix.SYS_SYSINFO, 0x77, 0x88, 0}})
		<-open
	})
	l, ok := <-started
	if !ok {
		t.FailNow()
	}
	var last uint64
	for _, errno := range []unix.Errno{unix.EXDEV, 0} {
		r, err := l.Receive()
		if err != nil {
			t.Fatal(err)
		}
		if r.Number != unix.SYS_SYSINFO || r.Args[0] != 0x77 || r.Args[1] != 0x88 || r.Thread == 0 || !l.Waits(r.ID) {
			t.Errorf("the request is %+v", r)
		}
		if err := l.Answer(r.ID, errno); err != nil {
			t.Error(err)
		}
		if l.Waits(r.ID) {
			t.Error("an answered call waits")
		}
		last = r.ID
	}
	close(open)
	<-done
	if err := l.Answer(last, 0); err != nil {
		t.Errorf("an answer to a call that is over: %v", err)
	}
	if r, err := l.Receive(); !errors.Is(err, confine.ErrSupervisedEnded) {
		t.Errorf("after the end it receives %+v, %v", r, err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// TestClosedListener: without a listener an asked call fails.
func TestClosedListener(t *testing.T) {
	<-onAThread(func() {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			t.Error(err)
			return
		}
		l, err := confine.Supervise([]uint32{unix.SYS_SYSINFO}, nil)
		if err == nil {
			err = l.Close()
		}
		if err != nil {
			t.Error(err)
			return
		}
		var info unix.Sysinfo_t
		tryCalls(t, map[string]attempt{"asked": {unix.SYS_SYSINFO, uintptr(unsafe.Pointer(&info)), 0, unix.ENOSYS}})
	})
}

// onAThread runs do on a thread that ends with it: a filter stays on a thread for good. The process's first thread never ends, so it isn't that.
func onAThread(do func()) (ended chan struct{}) {
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			<-onAThread(do) // which can't get this one meanwhile
			runtime.UnlockOSThread()
			return
		}
		do()
	}()
	return ended
}

// attempt is a system call and the error that it must have.
type attempt struct {
	number, first, second uintptr
	want                  unix.Errno
}

func tryCalls(t *testing.T, attempts map[string]attempt) {
	t.Helper()
	for name, a := range attempts {
		if _, _, errno := unix.Syscall(a.number, a.first, a.second, 0); errno != a.want {
			t.Errorf("%s: %v, want %v", name, errno, a.want)
		}
	}
}
