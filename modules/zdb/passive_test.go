package zdb_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/workload"
)

// raw is the descriptor of a duplicate that the runtime's poller knows nothing of.
func raw(t *testing.T, f interface{ File() (*os.File, error) }) int {
	t.Helper()
	file, err := f.File()
	must(t, err)
	defer file.Close()
	return rawFile(t, file)
}

func rawFile(t *testing.T, file *os.File) int {
	t.Helper()
	conn, err := file.SyscallConn()
	must(t, err)
	fd := -1
	must(t, conn.Control(func(of uintptr) { fd, err = unix.FcntlInt(of, unix.F_DUPFD_CLOEXEC, 3) }))
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// breakOut does what a zdb in somebody else's hands would: it makes a socket that
// it was given connect, and returns what came of it after a while.
func breakOut(t *testing.T, fd int, to net.Addr) error {
	t.Helper()
	disconnect(t, fd)
	defer disconnect(t, fd)
	at := to.(*net.TCPAddr)
	sa := &unix.SockaddrInet6{Port: at.Port, Addr: [16]byte(at.IP.To16())}
	err := unix.Connect(fd, sa)
	if !errors.Is(err, unix.EINPROGRESS) {
		return err
	}
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	if n, err := unix.Poll(poll, int((500 * time.Millisecond).Milliseconds())); err != nil || n == 0 {
		return errors.Join(os.ErrDeadlineExceeded, err)
	}
	said := make([]byte, 100)
	n, err := unix.Read(fd, said)
	if err == nil && string(said[:n]) != secretText {
		err = fmt.Errorf("it reads %q", said[:max(n, 0)])
	}
	return err
}

func disconnect(t *testing.T, fd int) {
	t.Helper()
	unspecified := [16]byte{}
	_, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&unspecified)), uintptr(len(unspecified)))
	if errno != 0 {
		t.Error(errno)
	}
}

// secretText is served to a process that breaks out.
const secretText = "secret"

// TestAZDBCannotBreakOut with the socket of the node's network that it holds, nor
// with a connection that it has accepted.
func TestAZDBCannotBreakOut(t *testing.T) {
	secret, err := net.Listen("tcp", net.JoinHostPort(nodeIPv4, "0"))
	must(t, err)
	defer secret.Close()
	var reached atomic.Int64
	go func() {
		for {
			conn, err := secret.Accept()
			if err != nil {
				return
			}
			reached.Add(1)
			tell(conn, secretText)
			conn.Close()
		}
	}()
	// An ordinary socket does break out: else this would show nothing.
	plain, err := net.Listen("tcp", ":0")
	must(t, err)
	defer plain.Close()
	if err := breakOut(t, raw(t, plain.(*net.TCPListener)), secret.Addr()); err != nil {
		t.Fatalf("an ordinary listener: %v", err)
	}
	if n := reached.Swap(0); n != 1 {
		t.Fatalf("an ordinary listener reaches it %d times", n)
	}
	// A module that comes back shuts down a socket of a zdb's that isn't bound where it should be, as one is that
	// connects: the kernel ends the attempt with ECONNRESET then.
	kept := func(err error) bool {
		return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, unix.ECONNRESET)
	}

	w := newWorld(t)
	spec := w.start(one, workload.ZDBUser)
	at := w.attachSpec(spec)
	accepted := w.accept(at.Port)
	if err := breakOut(t, accepted, secret.Addr()); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection: %v", err)
	}
	fd := rawFile(t, w.listeners(one)[0])
	for _, option := range []int{unix.SO_DETACH_FILTER, unix.SO_LOCK_FILTER} {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, 0); !errors.Is(err, unix.EPERM) {
			t.Errorf("option %d: %v", option, err)
		}
	}
	if err := breakOut(t, fd, secret.Addr()); !kept(err) {
		t.Errorf("the listener: %v", err)
	}
	w.attachSpec(spec)
	must(t, ping(at.Port))
	// Also one that it had from before.
	w.restart()
	if err := breakOut(t, rawFile(t, w.listeners(one)[0]), secret.Addr()); !kept(err) {
		t.Errorf("the listener that was had back: %v", err)
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("a zdb reaches it %d times", n)
	}
}

// accept takes a connection over the zdb's listener before the zdb does.
func (w *world) accept(port uint16) int {
	w.t.Helper()
	l := w.listeners(one)[0]
	p := w.zdbs[one].cmd.Process
	must(w.t, p.Signal(unix.SIGSTOP))
	defer func() { must(w.t, p.Signal(unix.SIGCONT)) }()
	eventually(w.t, func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.Pid))
		must(w.t, err)
		return !slices.ContainsFunc(threads, func(name string) bool {
			stat, err := os.ReadFile(name)
			return err == nil && !strings.Contains(string(stat), ") T ")
		})
	}, func() any { return "it doesn't stop" })
	conn, err := net.Dial("tcp", net.JoinHostPort(nodeIPv4, strconv.Itoa(int(port))))
	must(w.t, err)
	w.t.Cleanup(func() { conn.Close() })
	fd, _, err := unix.Accept4(rawFile(w.t, l), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	must(w.t, err)
	w.t.Cleanup(func() { unix.Close(fd) })
	return fd
}
