package blockdev

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/btrfs"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// What Probe finds may begin with these.
const (
	// Damaged: a btrfs has lost its superblock.
	Damaged = "a damaged btrfs"
	// Unreadable: a part of the disk can't be read, maybe at this moment alone.
	Unreadable = "data that can't be read"
)

// Probe names the content of a disk; empty when there is none. It only reads, and of a large disk only parts (spans). A disk of which
// signatures or superblocks can't be read is an error: it may be a pool. Where other parts can't be read, there is content.
func Probe(ctx context.Context, disk string) (string, error) {
	if err := checkUnused(disk); err != nil {
		return "", err
	}
	found, err := signature(ctx, disk)
	if err != nil || found != "" {
		return found, err
	}
	// A btrfs without its superblock can be repaired from a copy, so that the operator is told of more than of data.
	copied, err := btrfs.ReadCopy(disk)
	if err == nil {
		return Damaged + " with label " + copied.Label, nil
	}
	if !errors.Is(err, node.NotExist) {
		return "", err
	}
	return content(ctx, disk)
}

// claim is held while a disk is opened for this process alone: by two names of a disk, or by those of a disk and its partition, it can be
// looked at twice at a time.
var claim sync.Mutex

// checkUnused refuses a path that isn't a disk, and a disk in use.
func checkUnused(disk string) error {
	info, err := os.Stat(disk)
	if err != nil {
		return node.WithKind(node.NotExist, errors.Wrap(err, "cannot use disk"))
	}
	if info.Mode()&os.ModeDevice == 0 || info.Mode()&os.ModeCharDevice != 0 {
		return node.Errorf(node.Invalid, "cannot use disk %s: it isn't a block device", disk)
	}
	// The kernel gives this to one alone: not while it is mounted, swapped to,
	// or part of a RAID.
	claim.Lock()
	defer claim.Unlock()
	f, err := os.OpenFile(disk, os.O_RDONLY|unix.O_EXCL, 0)
	if err != nil {
		return node.WithKind(node.Busy, errors.Wrap(err, "cannot use disk"))
	}
	return errors.Wrap(f.Close(), "cannot use disk")
}

// signature asks blkid for a partition table or a file system.
func signature(ctx context.Context, disk string) (string, error) {
	out, err := run(ctx, "blkid", "-p", "-o", "export", disk)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		switch exit.ExitCode() {
		case 2:
			return "", nil
		case 8:
			return "several file systems at once", nil
		}
	}
	if err != nil {
		return "", errors.Wrapf(err, "cannot look at disk %s", disk)
	}
	values := map[string]string{}
	for line := range strings.Lines(out) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			values[key] = value
		}
	}
	switch {
	case values["TYPE"] != "" && values["LABEL"] != "":
		return values["TYPE"] + " with label " + values["LABEL"], nil
	case values["TYPE"] != "":
		return values["TYPE"], nil
	case values["PTTYPE"] != "":
		return "a partition table (" + values["PTTYPE"] + ")", nil
	}
	return "something that blkid knows", nil
}

// Type asks the kernel whether the disk rotates.
func Type(disk string) (workload.DeviceType, error) {
	dir, err := filepath.EvalSymlinks(filepath.Join("/sys/class/block", filepath.Base(disk)))
	if err != nil {
		return "", errors.Wrap(err, "cannot find the type of a disk")
	}
	// A partition has its queue in the folder of its disk, which is above it.
	for _, d := range []string{dir, filepath.Dir(dir)} {
		text, err := os.ReadFile(filepath.Join(d, "queue", "rotational"))
		if err != nil {
			continue
		}
		if strings.TrimSpace(string(text)) == "0" {
			return workload.SSD, nil
		}
		return workload.HDD, nil
	}
	return "", node.Errorf(node.Refused, "cannot find the type of disk %s: the kernel doesn't say; write SSD:%s or HDD:%s", disk, disk, disk)
}
