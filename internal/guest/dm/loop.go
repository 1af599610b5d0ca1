package dm

import (
	"os"
	"strconv"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// attempts bounds the search for a free loop device, which others may take first.
const attempts = 16

// Loop attaches a file to a loop device, read-only, which goes when nothing has it open any more. The caller closes the device, once
// something else has it open.
func Loop(file string) (*os.File, error) {
	backing, err := os.Open(file)
	if err != nil {
		return nil, errors.Wrap(err, "cannot attach a file")
	}
	defer backing.Close()
	loops, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, errors.Wrapf(err, "cannot attach %s: there are no loop devices", file)
	}
	defer loops.Close()
	for range attempts {
		number, err := unix.IoctlRetInt(int(loops.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, errors.Wrapf(err, "cannot attach %s: no loop device is free", file)
		}
		device, err := os.OpenFile("/dev/loop"+strconv.Itoa(number), os.O_RDONLY, 0)
		if err != nil {
			return nil, errors.Wrapf(err, "cannot attach %s", file)
		}
		config := unix.LoopConfig{Fd: uint32(backing.Fd()), Size: 4096, Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_READ_ONLY | unix.LO_FLAGS_AUTOCLEAR}}
		if err = unix.IoctlLoopConfigure(int(device.Fd()), &config); err == nil {
			return device, nil
		}
		device.Close()
		if !errors.Is(err, unix.EBUSY) {
			return nil, errors.Wrapf(err, "cannot attach %s", file)
		}
	}
	return nil, errors.Errorf("cannot attach %s: others took each free loop device", file)
}
