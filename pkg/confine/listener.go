package confine

import (
	"unsafe"

	"github.com/pkg/errors"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// ErrNoListener is the error of Supervise where the kernel can't let another process answer system calls (before Linux 5.0), or
// this process is supervised in this way already.
var ErrNoListener = errors.New("this machine's kernel lets no process answer these system calls of another")

// ErrSupervisedEnded is the error of Receive once no process is left whose calls the listener gets.
var ErrSupervisedEnded = errors.New("no supervised process is left")

// Refusal is a system call that fails with an error: always, or where an argument (0 is the first), of whose lower 32 bits those of
// Mask count, is one of Values.
type Refusal struct {
	Number   uint32
	Argument uint32
	Mask     uint32
	Values   []uint32
	Error    unix.Errno
}

// Request is a system call that waits for its answer.
type Request struct {
	ID uint64
	// Thread is the ID of the thread that has made the call.
	Thread int
	Number uint32
	Args   [6]uint64
}

// notification is the kernel's struct seccomp_notif.
type notification struct {
	id    uint64
	pid   uint32
	flags uint32
	data  struct {
		number      int32
		arch        uint32
		instruction uint64
		args        [6]uint64
	}
}

// response is the kernel's struct seccomp_notif_resp.
type response struct {
	id    uint64
	value int64
	errno int32
	flags uint32
}

// firstX32 begins the numbers of x86-64's other set of system calls (__X32_SYSCALL_BIT). No architecture has others as high.
const firstX32 = 0x40000000

// supervision is the kernel's program of Supervise.
func supervision(asked []uint32, refused []Refusal) []bpf.Instruction {
	is := func(value uint32, skip int) bpf.Instruction {
		return bpf.JumpIf{Cond: bpf.JumpEqual, Val: value, SkipFalse: uint8(skip)}
	}
	fail := func(errno unix.Errno) bpf.Instruction {
		return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(errno)}
	}
	load := bpf.LoadAbsolute{Off: callNumber, Size: 4}
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: callArch, Size: 4}, is(arch, 1), bpf.Jump{Skip: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS},
		load, bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: firstX32, SkipFalse: 1}, fail(unix.ENOSYS),
	}
	refused = append(refused, Refusal{
		Number: unix.SYS_SECCOMP, Argument: 1, Error: unix.EBUSY,
		Mask: unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, Values: []uint32{unix.SECCOMP_FILTER_FLAG_NEW_LISTENER},
	})
	for _, nr := range asked {
		program = append(program, is(nr, 1), bpf.RetConstant{Val: unix.SECCOMP_RET_USER_NOTIF})
	}
	for _, r := range refused {
		if r.Values == nil {
			program = append(program, is(r.Number, 1), fail(r.Error))
			continue
		}
		cases := []bpf.Instruction{bpf.LoadAbsolute{Off: callArg + r.Argument*argSize, Size: 4}, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: r.Mask}}
		for _, v := range r.Values {
			cases = append(cases, is(v, 1), fail(r.Error))
		}
		cases = append(cases, load)
		program = append(append(program, is(r.Number, len(cases))), cases...)
	}
	return append(program, bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW})
}

// Supervise puts a filter on the calling thread, and on the program that it executes, for good: the calls of asked wait for the
// answer of whoever reads the returned listener, and fail with ENOSYS once nobody has it; those of refused fail; all others are
// allowed. A call by the numbers of another architecture ends the process. The thread must have given up new privileges, and
// must not make an asked call before the listener is read. Who runs under the filter gets no listener of its own (EBUSY), which could
// answer in this one's place.
func Supervise(asked []uint32, refused []Refusal) (Listener, error) {
	var sizes struct{ notification, response, data uint16 }
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_NOTIF_SIZES, 0, uintptr(unsafe.Pointer(&sizes))); errno != 0 {
		return Listener{}, errors.Wrap(ErrNoListener, errno.Error())
	}
	if uintptr(sizes.notification) != unsafe.Sizeof(notification{}) || uintptr(sizes.response) != unsafe.Sizeof(response{}) {
		return Listener{}, errors.Wrapf(ErrNoListener, "its messages have %d and %d bytes", sizes.notification, sizes.response)
	}
	program, err := assemble(supervision(asked, refused))
	if err != nil {
		return Listener{}, err
	}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(program)))
	switch errno {
	case 0:
		return Listener{fd: int(fd)}, nil
	case unix.EINVAL, unix.EBUSY:
		return Listener{}, errors.Wrap(ErrNoListener, errno.Error())
	}
	return Listener{}, errors.Wrap(errno, "cannot filter system calls")
}

// Listener gets the system calls that Supervise asks about. One thread reads it at a time.
type Listener struct{ fd int }

// NewListener is the listener of a descriptor that another process has sent.
func NewListener(fd int) Listener { return Listener{fd: fd} }

// Descriptor is the listener's, which programs that are executed don't inherit.
func (l Listener) Descriptor() int { return l.fd }

// Close closes this process's descriptor. Calls fail with ENOSYS when no process has another.
func (l Listener) Close() error { return unix.Close(l.fd) }

// ListenerCalls are the system calls that Receive, Waits and Answer need beside those of Go's runtime.
func ListenerCalls() []Call {
	return append(Calls(unix.SYS_PPOLL), Call{
		Number: unix.SYS_IOCTL, Second: []uint32{unix.SECCOMP_IOCTL_NOTIF_RECV, unix.SECCOMP_IOCTL_NOTIF_SEND, unix.SECCOMP_IOCTL_NOTIF_ID_VALID},
	})
}

// Receive waits for the next call. ErrSupervisedEnded is its error when none can come any more: when the last supervised process has ended
// and its parent has waited for it. Linux before 5.9 never says so.
func (l Listener) Receive() (Request, error) {
	for {
		polled := []unix.PollFd{{Fd: int32(l.fd), Events: unix.POLLIN}}
		if _, err := unix.Ppoll(polled, nil, nil); err != nil && !errors.Is(err, unix.EINTR) {
			return Request{}, errors.Wrap(err, "cannot wait for system calls")
		}
		switch {
		case polled[0].Revents&unix.POLLIN != 0:
		case polled[0].Revents&unix.POLLHUP != 0:
			return Request{}, ErrSupervisedEnded
		case polled[0].Revents != 0:
			return Request{}, errors.Errorf("cannot wait for system calls: the listener has events %#x", polled[0].Revents)
		default:
			continue
		}
		var n notification // the kernel wants it zero
		switch err := l.control(unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)); {
		case err == nil:
			return Request{ID: n.id, Thread: int(n.pid), Number: uint32(n.data.number), Args: n.data.args}, nil
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ENOENT): // a signal has come, or the call is over
		default:
			return Request{}, errors.Wrap(err, "cannot receive a system call")
		}
	}
}

// Waits reports whether a call still waits for its answer: until then its thread's ID is no other's.
func (l Listener) Waits(id uint64) bool {
	return l.control(unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&id)) == nil
}

// Answer ends a call, with 0 or an error for its caller. One that is over is none of Answer's errors.
func (l Listener) Answer(id uint64, errno unix.Errno) error {
	r := response{id: id, errno: -int32(errno)}
	for {
		switch err := l.control(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r)); {
		case err == nil, errors.Is(err, unix.ENOENT):
			return nil
		case errors.Is(err, unix.EINTR):
		default:
			return errors.Wrap(err, "cannot answer a system call")
		}
	}
}

func (l Listener) control(number uint, argument unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(l.fd), uintptr(number), uintptr(argument)); errno != 0 {
		return errno
	}
	return nil
}
