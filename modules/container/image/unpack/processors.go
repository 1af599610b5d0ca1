package unpack

import (
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// startOnHalf starts a process on half of the processors that this one may use, the last of
// them: however much is unpacked, others find a processor at once that does nothing of the kind.
func startOnHalf(cmd *exec.Cmd) error {
	runtime.LockOSThread() // the process inherits what this thread may use
	defer runtime.UnlockOSThread()
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return err
	}
	half := halfOf(all)
	if err := unix.SchedSetaffinity(0, &half); err != nil {
		return err
	}
	err := cmd.Start()
	if back := unix.SchedSetaffinity(0, &all); err == nil && back != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		err = back
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
