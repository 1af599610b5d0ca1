package hooks

import (
	"os"
	"runtime"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// gateFD is the descriptor of the gate.
const gateFD = 3

const (
	// niceness and bestEffortLast are the priorities of hooks: of the processors, and of disks (ioprio).
	niceness       = 10
	bestEffortLast = 2<<13 | 7
	ioprioProcess  = 1
)

// Exec is the process of a hook before its program: it waits until its parent has put it into its control group,
// lowers its priority, and executes the program. It returns only when that isn't possible.
func Exec(argv []string) error {
	if len(argv) == 0 {
		return errors.New("cannot run a hook: no program is named")
	}
	gate := os.NewFile(gateFD, "gate")
	if n, err := gate.Read(make([]byte, 1)); n != 1 {
		return errors.Errorf("cannot run %s: the node is gone (%v)", argv[0], err)
	}
	_ = gate.Close()
	runtime.LockOSThread() // what follows is of the thread that executes the program
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, niceness)
	_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, ioprioProcess, 0, bestEffortLast)
	unix.Umask(0o022)
	if err := unix.CloseRange(gateFD, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return errors.Wrapf(err, "cannot run %s: its open files can't be closed", argv[0])
	}
	return errors.Wrapf(unix.Exec(argv[0], argv, os.Environ()), "cannot run %s", argv[0])
}
