package confine

import (
	"runtime"
	"unsafe"

	"github.com/pkg/errors"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// The offsets of a call's parts in the kernel's struct seccomp_data.
const (
	callNumber = 0
	callArch   = 4
	callArg    = 16
	argSize    = 8
)

// Call is an allowed system call: always, or where its second argument and the third
// are one of Values, or its second argument is one of Second. Arguments are compared in their lower 32 bits.
type Call struct {
	Number uint32
	Values [][2]uint32
	Second []uint32
}

// Calls are calls that are allowed with any arguments.
func Calls(numbers ...uint32) []Call {
	out := make([]Call, len(numbers))
	for i, n := range numbers {
		out[i].Number = n
	}
	return out
}

// ours are the system calls that Go's own runtime needs, with its way to wait for open
// files. None of them opens, starts or sends anything.
func ours() []Call {
	return Calls(append(callsHere(),
		unix.SYS_READ, unix.SYS_WRITE, unix.SYS_CLOSE, unix.SYS_FCNTL,
		unix.SYS_MUNMAP, unix.SYS_MREMAP, unix.SYS_BRK, unix.SYS_MADVISE, unix.SYS_MINCORE,
		unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK, unix.SYS_TGKILL,
		unix.SYS_FUTEX, unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_RESTART_SYSCALL,
		unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ, unix.SYS_GETPID, unix.SYS_GETTID, unix.SYS_GETRANDOM,
		unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EVENTFD2,
		unix.SYS_EXIT, unix.SYS_EXIT_GROUP)...)
}

// filter is the kernel's program for each system call. A forbidden call fails with
// EPERM, one by the numbers of another architecture ends the process.
func filter(beside []Call) []bpf.Instruction {
	fail := func(errno unix.Errno) bpf.Instruction {
		return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(errno)}
	}
	allow := bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}
	is := func(value uint32, skip int) bpf.Instruction {
		return bpf.JumpIf{Cond: bpf.JumpEqual, Val: value, SkipFalse: uint8(skip)}
	}
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: callArch, Size: 4}, is(arch, 1), bpf.Jump{Skip: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS},
		bpf.LoadAbsolute{Off: callNumber, Size: 4},
		// The C library tries this first; its flags can't be seen.
		is(unix.SYS_CLONE3, 1), fail(unix.ENOSYS),
		// Threads, no processes.
		is(unix.SYS_CLONE, 4), bpf.LoadAbsolute{Off: callArg, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: unix.CLONE_THREAD, SkipFalse: 1}, allow, fail(unix.EPERM),
	}
	// Memory, but not executable.
	for _, nr := range []uint32{unix.SYS_MMAP, unix.SYS_MPROTECT} {
		program = append(program, is(nr, 4), bpf.LoadAbsolute{Off: callArg + 2*argSize, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: unix.PROT_EXEC, SkipFalse: 1}, allow, fail(unix.EPERM))
	}
	for _, c := range append(ours(), beside...) {
		if c.Values == nil && c.Second == nil {
			program = append(program, is(c.Number, 1), allow)
			continue
		}
		var cases []bpf.Instruction
		for _, v := range c.Values {
			cases = append(cases, bpf.LoadAbsolute{Off: callArg + argSize, Size: 4}, is(v[0], 3),
				bpf.LoadAbsolute{Off: callArg + 2*argSize, Size: 4}, is(v[1], 1), allow)
		}
		for _, v := range c.Second {
			cases = append(cases, bpf.LoadAbsolute{Off: callArg + argSize, Size: 4}, is(v, 1), allow)
		}
		// Another Call of the same number may allow more.
		cases = append(cases, bpf.LoadAbsolute{Off: callNumber, Size: 4})
		program = append(append(program, is(c.Number, len(cases))), cases...)
	}
	return append(program, fail(unix.EPERM))
}

// Seal puts the filter on all threads of this process, for good: Go's runtime goes on,
// beside it only the calls in beside are allowed. The process can't gain privileges any more.
func Seal(beside []Call) error {
	program, err := assemble(filter(beside))
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return errors.Wrap(err, "cannot give up new privileges")
	}
	// The other threads' no_new_privs is set with it.
	other, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(program)))
	if errno != 0 {
		return errors.Wrap(errno, "cannot filter system calls")
	}
	if other != 0 {
		return errors.Errorf("cannot filter the system calls of thread %d", other)
	}
	return nil
}

// assemble makes a program for the kernel.
func assemble(program []bpf.Instruction) (*unix.SockFprog, error) {
	raw, err := bpf.Assemble(program)
	if err != nil {
		return nil, errors.Wrap(err, "cannot make the filter of system calls")
	}
	out := make([]unix.SockFilter, len(raw))
	for i, in := range raw {
		out[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	return &unix.SockFprog{Len: uint16(len(out)), Filter: &out[0]}, nil
}

// Ceilings sets limits of this process (RLIMIT_…) that can't be raised again. A lower one
// stays unchanged. With the race detector RLIMIT_DATA does.
func Ceilings(limits map[int]uint64) error {
	for which, most := range limits {
		if which == unix.RLIMIT_DATA && RaceDetector {
			continue
		}
		var have unix.Rlimit
		if err := unix.Getrlimit(which, &have); err != nil {
			return errors.Wrap(err, "cannot read a limit")
		}
		most = min(most, have.Max)
		if err := unix.Setrlimit(which, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return errors.Wrap(err, "cannot set a limit")
		}
	}
	return nil
}
