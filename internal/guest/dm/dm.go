// Package dm makes device-mapper devices by ioctls (the kernel's include/uapi/linux/dm-ioctl.h), and loop devices for them: what a
// machine needs that boots from a verified file.
package dm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"unsafe"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// control is device mapper's device, which the kernel makes with the module dm_mod.
const control = "/dev/mapper/control"

// Commands, by their numbers, and flags of struct dm_ioctl.
const (
	deviceCreate  = 3
	deviceRemove  = 4
	deviceSuspend = 6 // resumes it without the flag
	tableLoad     = 9

	readOnlyFlag = 1 << 0
)

// header is struct dm_ioctl.
type header struct {
	Version     [3]uint32
	DataSize    uint32
	DataStart   uint32
	TargetCount uint32
	OpenCount   int32
	Flags       uint32
	EventNr     uint32
	_           uint32
	Dev         uint64
	Name        [128]byte
	UUID        [129]byte
	_           [7]byte
}

// target is struct dm_target_spec; its parameters follow, with a zero at their end.
type target struct {
	Start, Length uint64
	Status        int32
	Next          uint32
	Kind          [16]byte
}

// ReadOnly makes a read-only device of one target, and returns its path. Sectors have 512 bytes.
func ReadOnly(name, kind, parameters string, sectors uint64) (path string, err error) {
	f, err := os.OpenFile(control, os.O_RDWR, 0)
	if err != nil {
		return "", errors.Wrapf(err, "cannot make device %s: device mapper isn't there", name)
	}
	defer f.Close()
	made, err := call(f, deviceCreate, header{}, name, nil)
	if err != nil {
		return "", errors.Wrapf(err, "cannot make device %s", name)
	}
	defer func() {
		if err != nil {
			_, _ = call(f, deviceRemove, header{}, name, nil)
		}
	}()
	spec, err := encoded(kind, parameters, sectors)
	if err != nil {
		return "", errors.Wrapf(err, "cannot make device %s", name)
	}
	if _, err = call(f, tableLoad, header{Flags: readOnlyFlag, TargetCount: 1}, name, spec); err != nil {
		return "", errors.Wrapf(err, "cannot make device %s of target %s", name, kind)
	}
	if _, err = call(f, deviceSuspend, header{Flags: readOnlyFlag}, name, nil); err != nil {
		return "", errors.Wrapf(err, "cannot start device %s", name)
	}
	return fmt.Sprintf("/dev/dm-%d", unix.Minor(made.Dev)), nil
}

// Remove removes a device that nothing has open.
func Remove(name string) error {
	f, err := os.OpenFile(control, os.O_RDWR, 0)
	if err != nil {
		return errors.Wrapf(err, "cannot remove device %s", name)
	}
	defer f.Close()
	_, err = call(f, deviceRemove, header{}, name, nil)
	return errors.Wrapf(err, "cannot remove device %s", name)
}

func encoded(kind, parameters string, sectors uint64) ([]byte, error) {
	t := target{Length: sectors}
	if copy(t.Kind[:len(t.Kind)-1], kind) < len(kind) {
		return nil, errors.Errorf("target %q has more than %d characters", kind, len(t.Kind)-1)
	}
	var out bytes.Buffer
	if err := binary.Write(&out, binary.NativeEndian, t); err != nil {
		return nil, err
	}
	out.WriteString(parameters)
	out.WriteByte(0)
	out.Write(make([]byte, -out.Len()&7))
	return out.Bytes(), nil
}

func call(f *os.File, command uintptr, h header, name string, data []byte) (header, error) {
	if copy(h.Name[:len(h.Name)-1], name) < len(name) || name == "" {
		return h, errors.Errorf("the name %q must have 1 to %d characters", name, len(h.Name)-1)
	}
	h.Version = [3]uint32{4, 0, 0}
	h.DataStart = uint32(binary.Size(h))
	h.DataSize = h.DataStart + uint32(len(data))
	var buffer bytes.Buffer
	if err := binary.Write(&buffer, binary.NativeEndian, h); err != nil {
		return h, err
	}
	buffer.Write(data)
	raw := buffer.Bytes()
	// _IOWR(DM_IOCTL, command, struct dm_ioctl)
	request := 3<<30 | uintptr(h.DataStart)<<16 | 0xfd<<8 | command
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), request, uintptr(unsafe.Pointer(&raw[0]))); errno != 0 {
		return h, errno
	}
	err := binary.Read(bytes.NewReader(raw), binary.NativeEndian, &h)
	return h, err
}
