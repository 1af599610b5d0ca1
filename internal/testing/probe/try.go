package main

import (
	"errors"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

func asErrno(err error) (syscall.Errno, bool) {
	var errno syscall.Errno
	ok := errors.As(err, &errno)
	return errno, ok
}

// raw makes a system call with arguments as harmless as possible.
func raw(number uintptr, args ...uintptr) func() error {
	return func() error {
		var a [6]uintptr
		copy(a[:], args)
		_, _, errno := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
		if errno != 0 {
			return errno
		}
		return nil
	}
}

// socket opens a socket.
func socket(domain, kind, protocol int) func() error {
	return func() error {
		fd, err := unix.Socket(domain, kind, protocol)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
}

// calls tries the system calls that a container must not have. Each is tried on a thread of its own,
// which ends with it.
func calls([]string) (any, error) {
	out := map[string]string{}
	for name, try := range forbidden() {
		done := make(chan error)
		go func() {
			runtime.LockOSThread()
			done <- try()
		}()
		out[name] = nameOf(<-done)
	}
	return out, nil
}

func forbidden() map[string]func() error {
	all := kernelCalls()
	for name, try := range namespaceCalls() {
		all[name] = try
	}
	for name, try := range socketCalls() {
		all[name] = try
	}
	for name, try := range portCalls() {
		all[name] = try
	}
	return all
}

func kernelCalls() map[string]func() error {
	return map[string]func() error{
		"acct":              raw(unix.SYS_ACCT),
		"add_key":           raw(unix.SYS_ADD_KEY),
		"bpf":               raw(unix.SYS_BPF),
		"clock_settime":     setClock,
		"delete_module":     raw(unix.SYS_DELETE_MODULE),
		"finit_module":      raw(unix.SYS_FINIT_MODULE, ^uintptr(0)),
		"init_module":       raw(unix.SYS_INIT_MODULE),
		"io_uring_setup":    raw(unix.SYS_IO_URING_SETUP, 1),
		"kexec_load":        raw(unix.SYS_KEXEC_LOAD),
		"keyctl":            raw(unix.SYS_KEYCTL),
		"lookup_dcookie":    raw(unix.SYS_LOOKUP_DCOOKIE),
		"nice":              func() error { return unix.Setpriority(unix.PRIO_PROCESS, 0, -5) },
		"open_by_handle_at": raw(unix.SYS_OPEN_BY_HANDLE_AT, ^uintptr(0)),
		"perf_event_open":   raw(unix.SYS_PERF_EVENT_OPEN),
		"quotactl":          raw(unix.SYS_QUOTACTL),
		"reboot":            raw(unix.SYS_REBOOT, unix.LINUX_REBOOT_MAGIC1, unix.LINUX_REBOOT_MAGIC2, unix.LINUX_REBOOT_CMD_CAD_OFF),
		"request_key":       raw(unix.SYS_REQUEST_KEY),
		"setrlimit": func() error {
			return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1})
		},
		"settimeofday": setTime,
		"swapon":       raw(unix.SYS_SWAPON),
		"syslog":       raw(unix.SYS_SYSLOG, 3),
		"userfaultfd":  raw(unix.SYS_USERFAULTFD),
		"vhangup":      raw(unix.SYS_VHANGUP),
	}
}

func namespaceCalls() map[string]func() error {
	setns := func() error {
		fd, err := unix.Open("/proc/1/ns/net", unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Setns(fd, 0)
	}
	return map[string]func() error{
		"chroot":        func() error { return unix.Chroot("/") },
		"clone user":    cloneUser,
		"clone3":        raw(unix.SYS_CLONE3),
		"fsopen":        raw(unix.SYS_FSOPEN),
		"mknod block":   func() error { return unix.Mknod("/tmp/block", unix.S_IFBLK|0o600, int(unix.Mkdev(254, 0))) },
		"mknod char":    func() error { return unix.Mknod("/tmp/char", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 1))) },
		"mount":         func() error { return unix.Mount("tmpfs", "/tmp", "tmpfs", 0, "") },
		"mount_setattr": raw(unix.SYS_MOUNT_SETATTR),
		"open_tree":     raw(unix.SYS_OPEN_TREE),
		"pivot_root":    func() error { return unix.PivotRoot("/", "/") },
		"remount":       func() error { return unix.Mount("", "/proc/sys", "", unix.MS_REMOUNT|unix.MS_BIND, "") },
		"setdomainname": func() error { return unix.Setdomainname([]byte("x")) },
		"sethostname":   func() error { return unix.Sethostname([]byte("x")) },
		"setns":         setns,
		"umount":        func() error { return unix.Unmount("/proc/sys", unix.MNT_DETACH) },
		"unshare net":   func() error { return unix.Unshare(unix.CLONE_NEWNET) },
		"unshare user":  func() error { return unix.Unshare(unix.CLONE_NEWUSER) },
	}
}

// setClock and setTime set the clock to its current value, in case they succeed.
func setClock() error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME, &now); err != nil {
		return err
	}
	return unix.ClockSettime(unix.CLOCK_REALTIME, &now)
}

func setTime() error {
	var now unix.Timeval
	if err := unix.Gettimeofday(&now); err != nil {
		return err
	}
	return unix.Settimeofday(&now)
}

// cloneUser makes a process in a new user namespace, which ends at once.
func cloneUser() error {
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	if pid == 0 {
		_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	_, err := unix.Wait4(int(pid), nil, 0, nil)
	return err
}

func socketCalls() map[string]func() error {
	return map[string]func() error{
		"socket alg":    socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0),
		"socket packet": socket(unix.AF_PACKET, unix.SOCK_RAW, 0),
		"socket raw":    socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP),
		"socket raw6":   socket(unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6),
		"socket vsock":  socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0),
	}
}
