package discard

import (
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/confine"
)

// What a discarder costs its VM's control group. A waiting croftd with one processor has 8 MiB of memory and 6 threads (Linux
// 6.18, amd64), beside 25 MiB of pages of the program, which it shares with the node's other processes.
const (
	// Memory is in bytes.
	Memory = 32 << 20
	// Threads are those of Go's runtime with one processor.
	Threads = 16
)

// startTime is how long a VM's start waits for its discarder.
const startTime = 10 * time.Second

// Discarder is a started process that serves no disk yet, seen from the process that becomes QEMU.
type Discarder struct{ socket int }

// Start starts the discarder: command is a program that calls Serve, uid the user and the group that it runs as. The calling
// process is root. What isn't closed when a program is executed, the discarder inherits. Its words go to where the caller's errors go.
func Start(command []string, uid uint32) (*Discarder, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, errors.Wrap(err, "cannot make the discarder's socket")
	}
	theirs := os.NewFile(uintptr(pair[1]), "discarder")
	defer theirs.Close()
	cmd := exec.Command(command[0], command[1:]...) //nolint:noctx // it outlives who starts it
	// One processor is enough for one request at a time, and keeps threads few.
	cmd.Dir, cmd.Env = "/", []string{"GOMAXPROCS=1", "GOTRACEBACK=single"}
	cmd.Stderr, cmd.ExtraFiles = os.Stderr, []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true,
		Credential: &syscall.Credential{Uid: uid, Gid: uid},
		// To see the file system's extents, and to compare open files with those of another user's process.
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SYS_PTRACE},
	}
	if err := cmd.Start(); err != nil {
		_ = unix.Close(pair[0])
		return nil, errors.Wrap(err, "cannot start the discarder")
	}
	return &Discarder{socket: pair[0]}, nil
}

// Supervise puts the calling thread, and the program that it executes, under the discarder, for good, and waits until that serves
// the disks of those descriptors. After any error there are no discards, whether the thread has the filter or not. The thread must
// have given up new privileges.
func (d *Discarder) Supervise(disks []int) error {
	defer func() { _ = unix.Close(d.socket) }()
	listener, err := confine.Supervise([]uint32{unix.SYS_FALLOCATE}, refusals())
	if err != nil {
		return err
	}
	// Calls fail once the discarder has closed its own.
	defer listener.Close()
	if err := send(d.socket, listener, disks); err != nil {
		return err
	}
	within := unix.NsecToTimeval(startTime.Nanoseconds())
	if err := unix.SetsockoptTimeval(d.socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &within); err != nil {
		return errors.Wrap(err, "cannot wait for the discarder")
	}
	answer := make([]byte, len(serves)+1)
	n, _, _, err := receiveMessage(d.socket, answer, nil)
	if err != nil {
		return errors.Wrap(err, "cannot wait for the discarder")
	}
	if string(answer[:n]) != serves {
		return errors.New("the discarder has ended; it says why itself")
	}
	return nil
}

// refusals are other ways to punch, zero, allocate or share parts of a file. QEMU needs none of them.
func refusals() []confine.Refusal {
	const (
		all = 0xffffffff
		// ioctlGroup are the bits of an ioctl's number that say whose it is.
		ioctlGroup = 0xff00
		btrfs      = 0x94 << 8 // among them FICLONE and its like
		// Those of linux/falloc.h.
		reserve, unreserve, reserve64, unreserve64, zeroRange = 0x40305828, 0x40305829, 0x4030582a, 0x4030582b, 0x40305839
	)
	return []confine.Refusal{
		{Number: unix.SYS_IO_URING_SETUP, Error: unix.ENOSYS},
		{Number: unix.SYS_IO_URING_ENTER, Error: unix.ENOSYS},
		{Number: unix.SYS_IO_URING_REGISTER, Error: unix.ENOSYS},
		{Number: unix.SYS_COPY_FILE_RANGE, Error: unix.ENOSYS},
		{Number: unix.SYS_IOCTL, Argument: 1, Mask: all, Values: []uint32{reserve, unreserve, reserve64, unreserve64, zeroRange}, Error: unix.ENOTTY},
		{Number: unix.SYS_IOCTL, Argument: 1, Mask: ioctlGroup, Values: []uint32{btrfs}, Error: unix.ENOTTY},
		// A hole in what is mapped is one in the file.
		{Number: unix.SYS_MADVISE, Argument: 2, Mask: all, Values: []uint32{unix.MADV_REMOVE}, Error: unix.EPERM},
		{Number: unix.SYS_PROCESS_MADVISE, Error: unix.ENOSYS},
		{Number: unix.SYS_FTRUNCATE, Error: unix.EPERM},
		{Number: unix.SYS_TRUNCATE, Error: unix.EPERM},
	}
}
