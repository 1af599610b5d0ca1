package discard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/vm/machine"
	"github.com/croft-edge/croft/pkg/confine"
)

// discarderUID is the user that the discarders of tests run as, supervisedUID that of what they serve.
const (
	discarderUID  = 0xf0030000
	supervisedUID = 0xf0010500
)

// outcome is what a supervised process reports of one attempt: an error's number, 0 for none.
type outcome map[string]int

// beSupervised becomes a process with a discarder, as a VM's does, for the disks of these paths. For each line of its input it makes
// attempts and writes their outcome; it ends with its input.
func beSupervised(paths []string) error {
	runtime.LockOSThread()
	// What the caller of the tests has left open is none of their business.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return err
	}
	var disks []int
	for _, path := range paths {
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		disks = append(disks, fd)
	}
	// One with the content of a disk, which isn't that disk.
	other, err := unix.Open(paths[0], unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	d, err := Start([]string{"/proc/self/exe", discarder}, discarderUID)
	if err != nil {
		return err
	}
	for _, call := range []uintptr{unix.SYS_SETRESGID, unix.SYS_SETRESUID} {
		if _, _, errno := unix.RawSyscall(call, supervisedUID, supervisedUID, supervisedUID); errno != 0 {
			return errno
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	failed := d.Supervise(disks)
	for line := []byte{0}; ; {
		if _, err := os.Stdin.Read(line); err != nil {
			return nil
		}
		out := attempts(disks[0], other)
		if failed != nil {
			out = outcome{failed.Error(): 0}
		}
		if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
			return err
		}
	}
}

// attempts are those of a QEMU that somebody has taken over.
func attempts(disk, other int) outcome {
	const mode = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
	out := outcome{}
	try := func(name string, number uintptr, args ...uintptr) {
		args = append(args, make([]uintptr, 6-len(args))...)
		_, _, errno := unix.Syscall6(number, args[0], args[1], args[2], args[3], args[4], args[5])
		out[name] = int(errno)
	}
	fd := uintptr(disk)
	for name, other := range map[string]uintptr{
		"allocate": 0, "punch": unix.FALLOC_FL_PUNCH_HOLE, "keep size": unix.FALLOC_FL_KEEP_SIZE, "zero": unix.FALLOC_FL_ZERO_RANGE,
		"zero and keep size": unix.FALLOC_FL_ZERO_RANGE | unix.FALLOC_FL_KEEP_SIZE, "collapse": unix.FALLOC_FL_COLLAPSE_RANGE,
		"insert": unix.FALLOC_FL_INSERT_RANGE, "unshare": unix.FALLOC_FL_UNSHARE_RANGE, "all modes": math.MaxUint32,
	} {
		try(name, unix.SYS_FALLOCATE, fd, other, 0, mib)
	}
	try("discard", unix.SYS_FALLOCATE, fd, mode, 0, mib)
	try("discard with upper bits", unix.SYS_FALLOCATE, fd|1<<32, mode|1<<40, 0, mib)
	try("discard nothing", unix.SYS_FALLOCATE, fd, mode, 0, 0)
	try("discard before the file", unix.SYS_FALLOCATE, fd, mode, math.MaxUint64-mib, mib)
	try("discard without end", unix.SYS_FALLOCATE, fd, mode, mib, math.MaxInt64)
	try("discard of another file", unix.SYS_FALLOCATE, uintptr(other), mode, 0, mib)
	try("discard of the input", unix.SYS_FALLOCATE, 0, mode, 0, mib)
	try("discard of no file", unix.SYS_FALLOCATE, math.MaxUint32, mode, 0, mib)
	try("io_uring", unix.SYS_IO_URING_SETUP, 1)
	try("io_uring's enter", unix.SYS_IO_URING_ENTER)
	try("io_uring's register", unix.SYS_IO_URING_REGISTER)
	space := [6]uint64{1: 0, 2: mib}
	try("punch by ioctl", unix.SYS_IOCTL, fd, 0x4030582b, uintptr(unsafe.Pointer(&space)))
	try("zero by ioctl", unix.SYS_IOCTL, fd, 0x40305839, uintptr(unsafe.Pointer(&space)))
	try("zero by ioctl with upper bits", unix.SYS_IOCTL, fd, 0x40305839|1<<32, uintptr(unsafe.Pointer(&space)))
	try("share extents", unix.SYS_IOCTL, uintptr(other), unix.FICLONE, fd)
	try("copy extents", unix.SYS_COPY_FILE_RANGE, fd, 0, uintptr(other), 0, mib)
	try("shorten", unix.SYS_FTRUNCATE, fd, 0)
	try("shorten by name", unix.SYS_TRUNCATE, uintptr(unsafe.Pointer(&[]byte("/proc/self/fd\x00")[0])), 0)
	if mapped, err := unix.Mmap(disk, 0, mib, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
		try("remove what is mapped", unix.SYS_MADVISE, uintptr(unsafe.Pointer(&mapped[0])), mib, unix.MADV_REMOVE)
		_ = unix.Munmap(mapped)
	}
	try("remove what a process has mapped", unix.SYS_PROCESS_MADVISE)
	if runtime.GOARCH == "amd64" {
		try("numbers of x32", 0x40000000|unix.SYS_FALLOCATE, fd, mode, 0, mib)
	}
	allow := []unix.SockFilter{{Code: 0x06, K: unix.SECCOMP_RET_ALLOW}}
	ask := []unix.SockFilter{{Code: 0x06, K: unix.SECCOMP_RET_USER_NOTIF}}
	for name, filter := range map[string][]unix.SockFilter{"another listener": ask, "another filter": allow} {
		flags := uintptr(0)
		if name == "another listener" {
			flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER
		}
		program := unix.SockFprog{Len: 1, Filter: &filter[0]}
		try(name, unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&program)))
	}
	try("zero after another filter", unix.SYS_FALLOCATE, fd, unix.FALLOC_FL_ZERO_RANGE, 0, mib)
	return out
}

// vm is a supervised process.
type vm struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
	// words are what it and its discarder have said.
	words *os.File
}

func startVM(t *testing.T, paths ...string) *vm {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", append([]string{supervised}, paths...)...)
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	words, err := os.Create(filepath.Join(t.TempDir(), "words"))
	must(t, err)
	t.Cleanup(func() { words.Close() })
	cmd.Stderr = words
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return &vm{t, cmd, in, json.NewDecoder(out), words}
}

// try has the process make its attempts.
func (v *vm) try() outcome {
	v.t.Helper()
	_, err := v.in.Write([]byte("\n"))
	must(v.t, err)
	var out outcome
	if err := v.out.Decode(&out); err != nil {
		raw, _ := os.ReadFile(v.words.Name())
		v.t.Fatalf("%v\n%s", err, raw)
	}
	return out
}

// discarder is the process's discarder.
func (v *vm) discarder() machine.Process {
	v.t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", v.cmd.Process.Pid))
	must(v.t, err)
	for _, task := range tasks {
		raw, _ := os.ReadFile(task)
		for _, text := range strings.Fields(string(raw)) {
			pid, err := strconv.Atoi(text)
			must(v.t, err)
			p, err := machine.Identify(pid)
			must(v.t, err)
			return p
		}
	}
	v.t.Fatal("there is no discarder")
	return machine.Process{}
}

// end ends the process, and waits until its discarder has ended by itself.
func (v *vm) end(p machine.Process) {
	v.t.Helper()
	must(v.t, v.in.Close())
	must(v.t, v.cmd.Wait())
	eventually(v.t, "the discarder ends with what it serves", func() error {
		if p.Runs() {
			return errors.New("it runs")
		}
		return nil
	})
	if raw, err := os.ReadFile(v.words.Name()); err != nil || len(bytes.TrimSpace(raw)) > 0 {
		v.t.Errorf("it has said %q, %v", raw, err)
	}
}

// TestSupervised: a supervised process discards its disks, and that only; nothing else gives it a hole or zeros, and it can't take the
// discarder's place. Its discarder has two rights and nothing of the process, and when it is killed nothing is discarded.
func TestSupervised(t *testing.T) {
	t.Parallel()
	p := newPool(t)
	f, _ := p.disk("8-1", 8*mib)
	second, _ := p.disk("8-2", 8*mib)
	data := pages(t, mib)
	for at := int64(0); at < 3*mib; at += mib {
		_, err := f.WriteAt(data, at)
		must(t, err)
	}
	must(t, f.Sync())
	before := p.used("8-1", f)
	v := startVM(t, f.Name(), second.Name())
	want := outcome{
		"discard": 0, "discard with upper bits": 0, "another filter": 0,
		"discard nothing": int(unix.EINVAL), "discard before the file": int(unix.EINVAL), "discard without end": int(unix.EINVAL),
		"discard of another file": int(unix.EBADF), "discard of the input": int(unix.EBADF), "discard of no file": int(unix.EBADF),
		"io_uring": int(unix.ENOSYS), "io_uring's enter": int(unix.ENOSYS), "io_uring's register": int(unix.ENOSYS), "copy extents": int(unix.ENOSYS),
		"shorten": int(unix.EPERM), "shorten by name": int(unix.EPERM), "remove what is mapped": int(unix.EPERM), "remove what a process has mapped": int(unix.ENOSYS),
		"punch by ioctl": int(unix.ENOTTY), "zero by ioctl": int(unix.ENOTTY), "zero by ioctl with upper bits": int(unix.ENOTTY), "share extents": int(unix.ENOTTY),
		"another listener": int(unix.EBUSY), "zero after another filter": int(unix.EOPNOTSUPP),
	}
	if runtime.GOARCH == "amd64" {
		want["numbers of x32"] = int(unix.ENOSYS)
	}
	for _, name := range []string{"allocate", "punch", "keep size", "zero", "zero and keep size", "collapse", "insert", "unshare", "all modes"} {
		want[name] = int(unix.EOPNOTSUPP)
	}
	wantOutcome(t, v.try(), want)
	if after := p.used("8-1", f); after > before-mib+mib/4 {
		t.Errorf("%d bytes are used, before the discard %d", after, before)
	}
	checkDiscarder(t, v.discarder())
	one := v.discarder()
	must(t, unix.Kill(one.PID, unix.SIGKILL))
	eventually(t, "it is dead", func() error {
		if one.Runs() {
			return errors.New("it runs")
		}
		return nil
	})
	for name, errno := range want {
		if errno == int(unix.EOPNOTSUPP) || strings.HasPrefix(name, "discard") {
			want[name] = int(unix.ENOSYS)
		}
	}
	wantOutcome(t, v.try(), want)
	v.end(one)
}

func wantOutcome(t *testing.T, got, want outcome) {
	t.Helper()
	for name, errno := range want {
		if have, tried := got[name]; !tried || have != errno {
			t.Errorf("%s: %v (tried: %t), want %v", name, unix.Errno(have), tried, unix.Errno(errno))
		}
	}
	if len(got) != len(want) {
		t.Errorf("the attempts are %v", got)
	}
}

// TestDiscarderEnds: the discarder ends with the process that it serves.
func TestDiscarderEnds(t *testing.T) {
	t.Parallel()
	p := newPool(t)
	f, _ := p.disk("8-1", 8*mib)
	v := startVM(t, f.Name())
	if out := v.try(); out["discard"] != 0 || len(out) < 2 {
		t.Errorf("the attempts are %v", out)
	}
	v.end(v.discarder())
}

// TestNoDiscarder: a disk that isn't on btrfs has no discarder, and a process without one has no discards.
func TestNoDiscarder(t *testing.T) {
	t.Parallel()
	disk := filepath.Join("/dev/shm", filepath.Base(t.TempDir())+"-discard")
	must(t, os.WriteFile(disk, make([]byte, mib), 0o600))
	t.Cleanup(func() { os.Remove(disk) })
	v := startVM(t, disk)
	for name := range v.try() {
		if !strings.Contains(name, "the discarder has ended") {
			t.Errorf("the outcome is %q", name)
		}
	}
	must(t, v.in.Close())
	must(t, v.cmd.Wait())
	if raw, err := os.ReadFile(v.words.Name()); err != nil || !strings.Contains(string(raw), ErrNotBtrfs.Error()) {
		t.Errorf("it has said %q, %v", raw, err)
	}
}

// beCaptured makes the attempts of a discarder that somebody has taken over. Its error names those with another outcome than they must have.
func beCaptured() error {
	file, err := unix.MemfdCreate("file", 0)
	if err != nil {
		return err
	}
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return err
	}
	if err := confine.Seal(calls()); err != nil {
		return err
	}
	fd := uintptr(file)
	name := uintptr(unsafe.Pointer(&[]byte("/etc/passwd\x00")[0]))
	var wrong []string
	for what, a := range map[string]struct {
		number, first, second uintptr
		want                  unix.Errno
	}{
		"allocate":           {unix.SYS_FALLOCATE, fd, 0, unix.EPERM},
		"zero":               {unix.SYS_FALLOCATE, fd, unix.FALLOC_FL_ZERO_RANGE, unix.EPERM},
		"punch nothing":      {unix.SYS_FALLOCATE, fd, punchMode, unix.EINVAL},
		"search a tree":      {unix.SYS_IOCTL, fd, iocTreeSearchV2, unix.ENOTTY},
		"begin a commit":     {unix.SYS_IOCTL, fd, iocStartSync, unix.ENOTTY},
		"wait for a commit":  {unix.SYS_IOCTL, fd, iocWaitSync, unix.ENOTTY},
		"receive a call":     {unix.SYS_IOCTL, fd, unix.SECCOMP_IOCTL_NOTIF_RECV, unix.ENOTTY},
		"add a descriptor":   {unix.SYS_IOCTL, fd, unix.SECCOMP_IOCTL_NOTIF_ADDFD, unix.EPERM},
		"remove a subvolume": {unix.SYS_IOCTL, fd, 0x5000943f, unix.EPERM},
		"take a file":        {unix.SYS_PIDFD_GETFD, uintptr(self), fd, unix.EPERM},
		"find a process":     {unix.SYS_PIDFD_OPEN, 1, 0, unix.EPERM},
		"trace":              {unix.SYS_PTRACE, unix.PTRACE_ATTACH, 1, unix.EPERM},
		"read memory":        {unix.SYS_PROCESS_VM_READV, 1, 0, unix.EPERM},
		"open a file":        {unix.SYS_OPENAT, math.MaxUint64 - 99, name, unix.EPERM},
		"read at":            {unix.SYS_PREAD64, fd, 0, unix.EPERM},
		"write at":           {unix.SYS_PWRITE64, fd, 0, unix.EPERM},
		"truncate":           {unix.SYS_FTRUNCATE, fd, 0, unix.EPERM},
		"mount":              {unix.SYS_MOUNT, 0, 0, unix.EPERM},
		"execute":            {unix.SYS_EXECVE, name, 0, unix.EPERM},
		"open a socket":      {unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_STREAM, unix.EPERM},
		"send a message":     {unix.SYS_SENDMSG, fd, 0, unix.EPERM},
		"signal":             {unix.SYS_KILL, 1, 0, unix.EPERM},
		"become another":     {unix.SYS_SETUID, 0, 0, unix.EPERM},
		"enter a namespace":  {unix.SYS_SETNS, fd, 0, unix.EPERM},
	} {
		if _, _, errno := unix.Syscall(a.number, a.first, a.second, 0); errno != a.want {
			wrong = append(wrong, fmt.Sprintf("%s: %v, want %v", what, errno, a.want))
		}
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "\n"))
	}
	return nil
}

// TestCapturedDiscarder: a discarder that somebody has taken over does what it must be able to do, and nothing else.
func TestCapturedDiscarder(t *testing.T) {
	t.Parallel()
	if out, err := exec.CommandContext(t.Context(), "/proc/self/exe", captured).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// checkDiscarder: its threads have two capabilities, no way to get more, and a filter; it has none of the process's files but the disks.
func checkDiscarder(t *testing.T, p machine.Process) {
	t.Helper()
	proc := fmt.Sprintf("/proc/%d", p.PID)
	threads, err := filepath.Glob(proc + "/task/*/status")
	must(t, err)
	if len(threads) == 0 || len(threads) > Threads {
		t.Errorf("it has %d threads, want at most %d", len(threads), Threads)
	}
	const rights = "0000000000280000" // CAP_SYS_PTRACE and CAP_SYS_ADMIN
	uid := strings.Repeat("\t"+strconv.Itoa(discarderUID), 4)
	for _, thread := range threads {
		status, err := os.ReadFile(thread)
		must(t, err)
		for _, line := range []string{"Uid:" + uid, "Gid:" + uid, "Groups:\t \n", "CapPrm:\t" + rights, "CapEff:\t" + rights, "NoNewPrivs:\t1", "Seccomp:\t2"} {
			if !strings.Contains(string(status), line) {
				t.Errorf("a thread lacks %q:\n%s", line, status)
			}
		}
	}
	files, err := os.ReadDir(proc + "/fd")
	must(t, err)
	disks, listeners := 0, 0
	for _, file := range files {
		to, err := os.Readlink(filepath.Join(proc, "fd", file.Name()))
		must(t, err)
		switch {
		case strings.HasSuffix(to, "/image"):
			disks++
		case strings.Contains(to, "seccomp"):
			listeners++
		// Go's runtime reads the limits of its control group.
		case to == "/dev/null", strings.HasPrefix(to, "/sys/fs/cgroup/"), strings.HasSuffix(to, "/words"), strings.Contains(to, "eventpoll"), strings.Contains(to, "eventfd"):
		default:
			t.Errorf("descriptor %s is %s", file.Name(), to)
		}
	}
	if disks != 2 || listeners != 1 {
		t.Errorf("it has %d disks and %d listeners open, want 2 and 1", disks, listeners)
	}
	raw, err := os.ReadFile(proc + "/status")
	must(t, err)
	for line := range strings.Lines(string(raw)) {
		if strings.HasPrefix(line, "VmRSS") || strings.HasPrefix(line, "RssAnon") || strings.HasPrefix(line, "Threads") {
			t.Log(strings.TrimSpace(line))
		}
	}
}
