package unpack

import (
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// startOnHalf starts a process on half of the processors that this one may use, the last of
// them: however much is unpacked, others find a processor at once that does nothing of the kind.
//
// Where a machine doesn't say which there are, or doesn't let them be chosen, it has all.
func startOnHalf(cmd *exec.Cmd) error {
	runtime.LockOSThread() // the process inherits this thread's affinity
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		runtime.UnlockOSThread()
		return cmd.Start()
	}
	half := halfOf(all)
	if err := unix.SchedSetaffinity(0, &half); err != nil {
		runtime.UnlockOSThread()
		return cmd.Start()
	}
	err := cmd.Start()
	if unix.SchedSetaffinity(0, &all) == nil {
		runtime.UnlockOSThread() // else the thread ends with its goroutine
	}
	return err
}

// halfOf is the last half of a set, one at least.
func halfOf(all unix.CPUSet) (half unix.CPUSet) {
	left := max(1, all.Count()/2)
	for cpu := len(all)*64 - 1; left > 0 && cpu >= 0; cpu-- {
		if all.IsSet(cpu) {
			half.Set(cpu)
			left--
		}
	}
	return half
}
