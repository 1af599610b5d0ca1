package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/guest"
	"github.com/croft-edge/croft/internal/testing/vmguest/report"
)

// counterMagic begins a data disk, before the number of boots in decimal and a line break.
const counterMagic = "croft guest boots "

type disks struct {
	all []report.Disk
	// config and data are devices, empty without such a disk.
	config, data string
	boots        int
}

// findDisks looks at the virtio-blk disks, in the order of their names.
func findDisks() disks {
	var out disks
	for _, have := range guest.Disks() {
		queue := "/sys/block/" + have.Name + "/queue/"
		d := report.Disk{
			Name: have.Name, Serial: have.Serial, Bytes: have.Bytes, ReadOnly: have.ReadOnly,
			Discard: guest.ReadNumber(queue + "discard_max_bytes"), Zero: guest.ReadNumber(queue + "write_zeroes_max_bytes"),
		}
		switch {
		case out.config == "" && guest.IsConfig(have.Device()):
			out.config, d.Config = have.Device(), true
		case out.data == "" && !d.ReadOnly:
			out.data, d.Data = have.Device(), true
		}
		out.all = append(out.all, d)
	}
	return out
}

// countBoot counts this boot on the data disk, unless that begins with something else.
func (d *disks) countBoot() {
	if d.data == "" {
		return
	}
	count := make([]byte, report.CounterBytes)
	if err := d.transfer(count, 0, false); err != nil {
		say("cannot read the data disk: %v", err)
		return
	}
	boots := 0
	if rest, ok := strings.CutPrefix(string(count), counterMagic); ok {
		number, _, _ := strings.Cut(rest, "\n")
		boots, _ = strconv.Atoi(number)
	} else if slices.ContainsFunc(count, func(b byte) bool { return b != 0 }) {
		return
	}
	clear(count)
	copy(count, fmt.Sprintf("%s%d\n", counterMagic, boots+1))
	if err := d.transfer(count, 0, true); err != nil {
		say("cannot write the data disk: %v", err)
		return
	}
	d.boots = boots + 1
	say("boot %d with data disk %s", d.boots, d.data)
}

// transfer reads or writes the data disk, past the kernel's cache; what is written is flushed to the disk too.
func (d *disks) transfer(b []byte, offset int64, write bool) (err error) {
	if d.data == "" {
		return errors.New("there is no data disk")
	}
	flags := os.O_RDONLY
	if write {
		flags = os.O_RDWR
	}
	f, err := os.OpenFile(d.data, flags, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if !write {
		if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
			return err
		}
		_, err = f.ReadAt(b, offset)
		return err
	}
	if _, err := f.WriteAt(b, offset); err != nil {
		return err
	}
	return f.Sync()
}

// size asks the kernel anew: a disk can grow.
func (d *disks) size() int64 {
	if d.data == "" {
		return 0
	}
	return guest.DiskBytes(filepath.Base(d.data))
}

// discard gives up the content of a part of the data disk.
func (d *disks) discard(offset, length int64) error {
	f, err := os.OpenFile(d.data, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	part := [2]uint64{uint64(offset), uint64(length)}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), unix.BLKDISCARD, uintptr(unsafe.Pointer(&part))); errno != 0 {
		return errno
	}
	return nil
}
