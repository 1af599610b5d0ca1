// Package fscheck checks the file system on the disk of a machine that is off.
package fscheck

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// Btrfs checks that a btrfs has no fault. One is allowed, and returned line by line: qgroups that miscount by at most that many bytes each, as Linux 6.1 was
// seen to leave one after power cuts; they must be right once btrfs has counted anew, which writes to the disk. It needs root and a mount namespace in
// which it may mount.
func Btrfs(ctx context.Context, disk string, most int64) (miscounted []string, err error) {
	out, err := check(ctx, disk)
	if err == nil {
		return nil, nil
	}
	if miscounted, err = parse(out, most); err != nil {
		return nil, fmt.Errorf("the file system of %s isn't clean: %w\n%s", disk, err, out)
	}
	if err := countAnew(ctx, disk); err != nil {
		return miscounted, err
	}
	if again, err := check(ctx, disk); err != nil {
		return miscounted, fmt.Errorf("the file system of %s isn't clean: %s\nwith its qgroups counted anew: %w\n%s", disk, out, err, again)
	}
	return miscounted, nil
}

func check(ctx context.Context, disk string) (string, error) {
	out, err := exec.CommandContext(ctx, "btrfs", "check", "--readonly", disk).CombinedOutput()
	return string(out), err
}

// parse reads by how much the qgroups miscount that a failed check names. It fails if it names none, or one that is off by more.
func parse(out string, most int64) (miscounted []string, err error) {
	group := ""
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "Counts for qgroup id") {
			group = line
		}
		fields := strings.Fields(line)
		if group == "" || len(fields) < 3 || fields[0] != "diff:" {
			continue
		}
		off, err := strconv.ParseInt(fields[2], 10, 64)
		if err != nil || max(off, -off) > most {
			return nil, fmt.Errorf("%s: off by %s bytes, at most %d are allowed", group, fields[2], most)
		}
		miscounted = append(miscounted, group+": "+line)
	}
	if len(miscounted) == 0 {
		return nil, fmt.Errorf("it has another fault than miscounted qgroups")
	}
	return miscounted, nil
}

// countAnew mounts the file system, and has it count its qgroups anew.
func countAnew(ctx context.Context, disk string) error {
	at, err := os.MkdirTemp("", "croft-fscheck-")
	if err != nil {
		return err
	}
	defer os.Remove(at) // it stays while something is mounted there
	if err := run(ctx, "mount", "-t", "btrfs", "-o", "loop,subvolid=5", disk, at); err != nil {
		return err
	}
	counted := run(ctx, "btrfs", "quota", "rescan", "-w", at)
	if err := run(context.WithoutCancel(ctx), "umount", at); err != nil {
		return err
	}
	return counted
}

func run(ctx context.Context, name string, args ...string) error {
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %q: %w: %s", name, args, err, strings.TrimSpace(string(out)))
	}
	return nil
}
