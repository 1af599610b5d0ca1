package unpack

import (
	"runtime"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// Where the kernel's struct seccomp_data has the parts of a call.
const (
	callNumber = 0
	callArch   = 4
	callArg    = 16
	argSize    = 8
)

// calls are the system calls that reading a pipe, writing below the root, and Go's
// own runtime need. None of them opens a socket, starts a program or changes what
// is mounted, and files are those below the root.
func calls() []uint32 {
	return append(callsHere(),
		unix.SYS_READ, unix.SYS_WRITE, unix.SYS_PREAD64, unix.SYS_PWRITE64, unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_CLOSE, unix.SYS_FSTAT, unix.SYS_LSEEK, unix.SYS_FCNTL, unix.SYS_FTRUNCATE,
		unix.SYS_OPENAT, unix.SYS_OPENAT2, unix.SYS_STATX, unix.SYS_GETDENTS64, unix.SYS_READLINKAT, unix.SYS_FACCESSAT, unix.SYS_GETCWD,
		unix.SYS_MKDIRAT, unix.SYS_MKNODAT, unix.SYS_UNLINKAT, unix.SYS_SYMLINKAT, unix.SYS_LINKAT,
		unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT,
		unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_GETXATTR, unix.SYS_LGETXATTR, unix.SYS_FGETXATTR, unix.SYS_LISTXATTR, unix.SYS_LLISTXATTR, unix.SYS_FLISTXATTR,
		unix.SYS_MUNMAP, unix.SYS_MREMAP, unix.SYS_BRK, unix.SYS_MADVISE, unix.SYS_MINCORE,
		unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK, unix.SYS_TGKILL,
		unix.SYS_FUTEX, unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_RESTART_SYSCALL,
		unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ, unix.SYS_GETPID, unix.SYS_GETTID, unix.SYS_GETRANDOM, unix.SYS_UMASK,
		unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EVENTFD2, unix.SYS_PIPE2,
		unix.SYS_EXIT, unix.SYS_EXIT_GROUP)
}

// filter is the program that the kernel asks about each system call. A call that
// isn't in calls fails with EPERM, one by the numbers of another architecture ends
// the process.
func filter() []bpf.Instruction {
	fail := func(errno unix.Errno) bpf.Instruction {
		return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(errno)}
	}
	allow := bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}
	is := func(nr uint32, skip uint8) bpf.Instruction {
		return bpf.JumpIf{Cond: bpf.JumpEqual, Val: nr, SkipFalse: skip}
	}
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: callArch, Size: 4}, is(arch, 1), bpf.Jump{Skip: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS},
		bpf.LoadAbsolute{Off: callNumber, Size: 4},
		// The C library tries this first, whose flags can't be seen.
		is(unix.SYS_CLONE3, 1), fail(unix.ENOSYS),
		// Threads, no processes.
		is(unix.SYS_CLONE, 4), bpf.LoadAbsolute{Off: callArg, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: unix.CLONE_THREAD, SkipFalse: 1}, allow, fail(unix.EPERM),
	}
	// Memory, but none that is run.
	for _, nr := range []uint32{unix.SYS_MMAP, unix.SYS_MPROTECT} {
		program = append(program, is(nr, 4), bpf.LoadAbsolute{Off: callArg + 2*argSize, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: unix.PROT_EXEC, SkipFalse: 1}, allow, fail(unix.EPERM))
	}
	for _, nr := range calls() {
		program = append(program, is(nr, 1), allow)
	}
	return append(program, fail(unix.EPERM))
}

// seal puts the filter on all threads of this process, for good.
func seal() error {
	raw, err := bpf.Assemble(filter())
	if err != nil {
		return node.Errorf(node.Internal, "cannot make the filter of system calls: %w", err)
	}
	out := make([]unix.SockFilter, len(raw))
	for i, in := range raw {
		out[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return node.Errorf(node.Internal, "cannot give up new privileges: %w", err)
	}
	program := unix.SockFprog{Len: uint16(len(out)), Filter: &out[0]}
	// The other threads' no_new_privs is set with it.
	other, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return node.Errorf(node.Internal, "cannot filter system calls: %w", errno)
	}
	if other != 0 {
		return node.Errorf(node.Internal, "cannot filter the system calls of thread %d", other)
	}
	return nil
}
