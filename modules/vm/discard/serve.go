package discard

import (
	"fmt"
	"math"
	"os"
	"runtime/debug"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/confine"
)

const (
	// socketDescriptor is where the discarder gets the listener and the disks, and says that it serves them.
	socketDescriptor = 3
	// mostDisks bounds the disks of a discarder.
	mostDisks = 16
	// mostOpen bounds the discarder's open files: the listener, the disks, and those of Go's runtime.
	mostOpen = mostDisks + 16
	// mostData bounds the memory that it writes, in bytes; heapGoal is when it collects garbage more often.
	mostData = 256 << 20
	heapGoal = 16 << 20
	// serves is the discarder's word that it serves the disks.
	serves = "serves"
	// kcmpFile compares open files, KCMP_FILE of linux/kcmp.h.
	kcmpFile = 0
)

// Serve is the discarder: the process that Start starts. It returns nil when no process of the VM is left.
func Serve() error {
	debug.SetMemoryLimit(heapGoal)
	if err := confine.Ceilings(map[int]uint64{unix.RLIMIT_NOFILE: mostOpen, unix.RLIMIT_CORE: 0, unix.RLIMIT_DATA: mostData}); err != nil {
		return err
	}
	given, err := receive(socketDescriptor)
	if errors.Is(err, errGone) {
		return nil
	}
	if err != nil {
		return err
	}
	s, caller := &server{listener: given.listener}, os.Getppid()
	for _, fd := range given.disks {
		disk, err := OpenDisk(fd)
		if err != nil {
			return err
		}
		s.disks = append(s.disks, disk)
	}
	if err := confine.Seal(calls()); err != nil {
		return err
	}
	// Without that no request could be served.
	if same, err := sameFile(caller, s.disks[0].fd, given.first); !same {
		return errors.Errorf("cannot recognize a VM's disk in process %d as descriptor %d: %v", caller, given.first, err)
	}
	if _, err := unix.Write(socketDescriptor, []byte(serves)); err != nil {
		return errors.Wrap(err, "cannot say that discards are served")
	}
	if err := unix.Close(socketDescriptor); err != nil {
		return errors.Wrap(err, "cannot close the discarder's socket")
	}
	return s.serve()
}

// calls are the system calls that the discarder needs beside those of Go's runtime: none opens a file. kcmp compares files of
// processes, and tells nothing of them. A search takes the number of any tree.
func calls() []confine.Call {
	return append(confine.ListenerCalls(),
		confine.Call{Number: unix.SYS_IOCTL, Second: []uint32{iocTreeSearchV2, iocStartSync, iocWaitSync}},
		confine.Call{Number: unix.SYS_FALLOCATE, Second: []uint32{punchMode}},
		confine.Call{Number: unix.SYS_KCMP})
}

// server answers the calls of a VM's processes, one after the other.
type server struct {
	listener confine.Listener
	disks    []*Disk
	// failed is set once a failure was logged.
	failed bool
}

// serve answers until no process is left that could ask.
func (s *server) serve() error {
	for {
		r, err := s.listener.Receive()
		if errors.Is(err, confine.ErrSupervisedEnded) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.listener.Answer(r.ID, s.answer(r)); err != nil {
			return err
		}
	}
}

// answer does what a call asks for, as far as it is a discard of one of the disks. Arguments of fewer than 64 bits are in the
// lower bits, as the kernel takes them.
func (s *server) answer(r confine.Request) unix.Errno {
	if r.Number != unix.SYS_FALLOCATE || uint32(r.Args[1]) != punchMode {
		return unix.EOPNOTSUPP
	}
	offset, length := r.Args[2], r.Args[3]
	if length == 0 || offset > math.MaxInt64 || length > math.MaxInt64-offset {
		return unix.EINVAL
	}
	for _, d := range s.disks {
		same, err := sameFile(r.Thread, d.fd, int(int32(r.Args[0])))
		// Only now is it certain that the thread's ID was the caller's. A caller that doesn't wait gets no answer.
		if !s.listener.Waits(r.ID) {
			return unix.EOPNOTSUPP
		}
		if errors.Is(err, unix.EBADF) || err == nil && !same {
			continue
		}
		if err == nil {
			err = d.Discard(offset, length, func() bool { return s.listener.Waits(r.ID) })
		}
		if err != nil {
			s.fail(err)
			return unix.EOPNOTSUPP
		}
		return 0
	}
	return unix.EBADF
}

// fail logs the first failure. The guest learns of none: what isn't discarded stays, and QEMU takes EOPNOTSUPP for a disk without
// discards.
func (s *server) fail(err error) {
	if !s.failed {
		fmt.Fprintf(os.Stderr, "croft: a discard of the VM can't be passed on to its disk: %v\n", err)
	}
	s.failed = true
}

// sameFile reports whether a descriptor of another thread is the very file that this process has open under a descriptor of its
// own: not one of the same name that was opened once more.
func sameFile(thread, fd, descriptor int) (bool, error) {
	order, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(os.Getpid()), uintptr(thread), kcmpFile, uintptr(fd), uintptr(descriptor), 0)
	if errno != 0 {
		return false, errno
	}
	return order == 0, nil
}
