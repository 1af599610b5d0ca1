package guest

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Disk is a virtio-blk disk.
type Disk struct {
	// Name is the kernel's: vda.
	Name string
	// Serial is empty if the disk has none.
	Serial   string
	Bytes    int64
	ReadOnly bool
}

// Device is the path of the disk's device.
func (d Disk) Device() string { return "/dev/" + d.Name }

// Disks are the virtio-blk disks, in the order of their names.
func Disks() []Disk {
	names, _ := filepath.Glob("/sys/block/vd*")
	slices.Sort(names)
	var out []Disk
	for _, at := range names {
		name := filepath.Base(at)
		out = append(out, Disk{Name: name, Serial: ReadText(at + "/serial"), Bytes: DiskBytes(name), ReadOnly: ReadNumber(at+"/ro") != 0})
	}
	return out
}

// DiskBytes is a disk's size now, in bytes: a disk can grow. 0 if it isn't there.
func DiskBytes(name string) int64 { return ReadNumber("/sys/block/"+name+"/size") * 512 }

// ReadText is the text of a file of the kernel, without spaces around it; empty if it can't be read.
func ReadText(name string) string {
	b, _ := os.ReadFile(name)
	return strings.TrimSpace(string(b))
}

// ReadNumber is the number in a file of the kernel; 0 if there is none.
func ReadNumber(name string) int64 {
	n, _ := strconv.ParseInt(ReadText(name), 10, 64)
	return n
}

// MemoryBytes is the machine's memory, in bytes; 0 if the kernel doesn't say.
func MemoryBytes() uint64 { return memory("MemTotal:") }

// AvailableBytes is what of the machine's memory programs can still have, in bytes; 0 if the kernel doesn't say.
func AvailableBytes() uint64 { return memory("MemAvailable:") }

func memory(field string) uint64 {
	for line := range strings.Lines(ReadText("/proc/meminfo")) {
		if rest, ok := strings.CutPrefix(line, field); ok {
			kib, _ := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kib << 10
		}
	}
	return 0
}
