package unpack

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/confine"
	"github.com/croft-edge/croft/pkg/node"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func bounds() Bounds { return Bounds{MostBytes: 1 << 30, MostFiles: 100_000, Room: 1 << 30} }

// as runs this program as something, on an empty folder.
func as(t *testing.T, what string, packed Packed) error {
	t.Helper()
	_, err := Run(t.Context(), []string{"/proc/self/exe", what}, Layer{Packed: packed, Upper: t.TempDir(), Bounds: bounds()})
	return err
}

// try makes the attempts of a process that a layer has taken over. It returns
// those that succeeded.
func try() error {
	var well []string
	for what, f := range map[string]func() error{
		"start a program":       func() error { return unix.Exec("/bin/sh", []string{"sh"}, nil) },
		"open a socket":         func() error { _, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0); return err },
		"open a local socket":   func() error { _, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0); return err },
		"speak to the kernel":   func() error { _, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, 0); return err },
		"mount":                 func() error { return unix.Mount("none", "/", "tmpfs", 0, "") },
		"clone a mount":         func() error { _, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE); return err },
		"change the root":       func() error { return unix.Chroot("/") },
		"make a user namespace": func() error { return unix.Unshare(unix.CLONE_NEWUSER) },
		"enter a namespace":     func() error { return unix.Setns(0, 0) },
		"trace":                 func() error { return unix.PtraceAttach(1) },
		"fork": func() error {
			pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
			if errno == 0 && pid == 0 {
				unix.Exit(0)
			}
			return error(errnoOrNil(errno))
		},
		"signal":        func() error { return unix.Kill(-1, 0) },
		"make a device": func() error { return unix.Mknod("/device", unix.S_IFBLK, int(unix.Mkdev(254, 0))) },
		"make memory run": func() error {
			_, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_ANON|unix.MAP_PRIVATE)
			return err
		},
		"become root":         func() error { return unix.Setuid(0) },
		"raise a limit":       func() error { return unix.Setrlimit(unix.RLIMIT_CPU, &unix.Rlimit{Cur: 1 << 40, Max: 1 << 40}) },
		"use io_uring":        func() error { return call(unix.SYS_IO_URING_SETUP) },
		"load a program":      func() error { return call(unix.SYS_BPF) },
		"use keys":            func() error { return call(unix.SYS_KEYCTL) },
		"watch performance":   func() error { return call(unix.SYS_PERF_EVENT_OPEN) },
		"catch page faults":   func() error { return call(unix.SYS_USERFAULTFD) },
		"see the node's /etc": func() error { _, err := os.Stat("/etc"); return err },
		"see processes":       func() error { _, err := os.Stat("/proc"); return err },
		"go up":               func() error { _, err := os.Stat("/../../../../etc/passwd"); return err },
		"hide what is below":  func() error { return unix.Setxattr("/", "trusted.overlay.opaque", []byte("y"), 0) },
		"read another layer":  func() error { _, err := unix.Openat(4, "../..", unix.O_RDONLY, 0); return err },
	} {
		if err := f(); err == nil {
			well = append(well, what)
		}
	}
	// Operations that must succeed.
	if err := os.Mkdir("/made", 0o700); err != nil {
		well = append(well, err.Error())
	}
	if err := os.Lchown("/made", 1000, 65535); err != nil {
		well = append(well, err.Error())
	}
	if len(well) > 0 {
		return fmt.Errorf("cannot be: %s", strings.Join(well, ", "))
	}
	return nil
}

func call(nr uintptr) error {
	_, _, errno := unix.Syscall6(nr, 0, 0, 0, 0, 0, 0)
	// EFAULT and EINVAL are the kernel's word on its arguments: it was let through.
	if errno == unix.EPERM || errno == unix.ENOSYS {
		return errno
	}
	return nil
}

func errnoOrNil(errno syscall.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

func TestUnpackerIsConfined(t *testing.T) {
	upper := t.TempDir()
	_, err := Run(t.Context(), []string{"/proc/self/exe", "try"}, Layer{Packed: bytes.NewReader(nil), Upper: upper, Bounds: bounds()})
	must(t, err)
	var st unix.Stat_t
	must(t, unix.Lstat(filepath.Join(upper, "made"), &st))
	if st.Uid != 1000 || st.Gid != 65535 {
		t.Errorf("what it made is of %d:%d on the disk, want the layer's own 1000:65535", st.Uid, st.Gid)
	}
}

// children are the processes that this one has started.
func children(t *testing.T) (pids []string) {
	t.Helper()
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	must(t, err)
	for _, task := range tasks {
		raw, _ := os.ReadFile(task)
		pids = append(pids, strings.Fields(string(raw))...)
	}
	return pids
}

// look is a layer's bytes, of which the first are waited for: by then the process
// that reads them can be looked at.
type look struct {
	*bytes.Reader
	at   func()
	read int
}

func (l *look) ReadAt(p []byte, off int64) (int, error) {
	// More than a pipe holds has been read by the time of the second half.
	if l.read++; l.read == 2 {
		l.at()
	}
	return l.Reader.ReadAt(p, off)
}

func TestUnpackerIsUnprivileged(t *testing.T) {
	layer := tarOf(t, 4<<20)
	seen := 0
	at := func() {
		for _, pid := range children(t) {
			tasks, _ := filepath.Glob("/proc/" + pid + "/task/*/status")
			for _, task := range tasks {
				raw, _ := os.ReadFile(task)
				status := map[string]string{}
				for line := range strings.Lines(string(raw)) {
					key, value, _ := strings.Cut(line, ":")
					status[key] = strings.Join(strings.Fields(value), " ")
				}
				id := strconv.Itoa(FirstID + nobody)
				want := map[string]string{
					"Uid": strings.Repeat(id+" ", 4)[:4*len(id)+3], "Gid": strings.Repeat(id+" ", 4)[:4*len(id)+3], "Groups": "",
					"CapEff": "000000008004001b", "CapPrm": "000000008004001b", "CapAmb": "000000008004001b",
					"Seccomp": "2", "NoNewPrivs": "1",
				}
				for key, value := range want {
					if status[key] != value {
						t.Errorf("thread %s of it has %s %q, want %q", task, key, status[key], value)
					}
				}
				seen++
			}
			for _, kind := range []string{"user", "pid", "net", "ipc", "uts"} {
				theirs, _ := os.Readlink("/proc/" + pid + "/ns/" + kind)
				ours, _ := os.Readlink("/proc/self/ns/" + kind)
				if theirs == ours {
					t.Errorf("it is in the node's %s namespace", kind)
				}
			}
		}
	}
	_, err := Run(t.Context(), []string{"/proc/self/exe", "unpack"}, Layer{Packed: &look{at: at, Reader: bytes.NewReader(layer)}, Upper: t.TempDir(), Bounds: bounds()})
	must(t, err)
	if seen < 2 {
		t.Errorf("%d threads were looked at: this shows nothing", seen)
	}
}

func TestFailedUnpacker(t *testing.T) {
	for what, want := range map[string]struct {
		kind node.Kind
		text string
	}{
		"panic":    {node.Refused, "what the layer says"},
		"nonsense": {node.Refused, "nonsense"},
		"liar":     {node.Refused, "nonsense"},
		"much":     {node.Refused, "failed"},
		"other":    {node.Refused, "exit status 2"},
	} {
		err := as(t, what, bytes.NewReader(make([]byte, 1<<20)))
		if !errors.Is(err, want.kind) || !strings.Contains(err.Error(), want.text) || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%s answers %v (kind %s), want %s with %q", what, err, node.KindOf(err), want.kind, want.text)
		}
	}
	if left := children(t); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}

func TestKilledUnpackerIsTransient(t *testing.T) {
	at := func() {
		for _, text := range children(t) {
			pid, err := strconv.Atoi(text)
			must(t, err)
			must(t, unix.Kill(pid, unix.SIGKILL))
		}
	}
	err := as(t, "unpack", &look{at: at, Reader: bytes.NewReader(tarOf(t, 4<<20))})
	if !errors.Is(err, node.Transient) || !strings.Contains(err.Error(), "was killed") {
		t.Errorf("it answers %v", err)
	}
}

func TestTimeHasACeiling(t *testing.T) {
	before := Time.Each
	Time.Each = 1
	defer func() { Time.Each = before }()
	err := as(t, "spin", bytes.NewReader(nil))
	if !errors.Is(err, node.Refused) || !strings.Contains(err.Error(), "more than 1 seconds") {
		t.Errorf("it answers %v", err)
	}
}

func TestMemoryHasACeiling(t *testing.T) {
	if confine.RaceDetector {
		// Its own memory is more than any ceiling: make test runs this without it too.
		return
	}
	err := as(t, "memory", bytes.NewReader(nil))
	if !errors.Is(err, node.Refused) || !strings.Contains(err.Error(), "bytes of memory") {
		t.Errorf("it answers %v", err)
	}
}

// TestHostileUnpackerAnswer wants nothing to be marked that lies outside
// of the layer or behind a link.
func TestHostileUnpackerAnswer(t *testing.T) {
	upper, outside := t.TempDir(), t.TempDir()
	must(t, os.Mkdir(filepath.Join(outside, "x"), 0o755))
	must(t, os.Mkdir(filepath.Join(upper, "dir"), 0o755))
	must(t, os.Symlink(outside, filepath.Join(upper, "link")))
	_, err := Run(t.Context(), []string{"/proc/self/exe", "opaque"}, Layer{Packed: bytes.NewReader(nil), Upper: upper, Bounds: bounds()})
	must(t, err)
	value := make([]byte, 8)
	for path, want := range map[string]bool{filepath.Join(upper, "dir"): true, outside: false, filepath.Join(outside, "x"): false, "/etc": false} {
		n, err := unix.Getxattr(path, "trusted.overlay.opaque", value)
		if (err == nil && n == 1) != want {
			t.Errorf("%s is marked: %t (%v), want %t", path, err == nil, err, want)
		}
	}
}

// A process that has ended before its order comes is judged by its end.
func TestOrderOfAnEndedUnpacker(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	must(t, unix.Close(pair[1]))
	p := &process{control: os.NewFile(uintptr(pair[0]), "control")}
	must(t, p.send(order{}, nil))
}
