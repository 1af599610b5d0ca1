package main

import (
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/guest"
)

func memoryMiB() int {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	return int(info.Totalram * uint64(info.Unit) >> 20)
}

// stop ends the machine; what is written is on the disks then.
func stop(how int) {
	if err := guest.Stop(how); err != nil {
		say("cannot stop: %v", err)
	}
}
