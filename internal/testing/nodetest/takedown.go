package nodetest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/mounts"
)

// TakeDown unmounts all mounts below dir and frees the loop devices of files in it, as a reboot would.
func TakeDown(dir string) error {
	points, err := Mounts(dir)
	if err != nil {
		return err
	}
	for _, point := range slices.Backward(points) {
		if err := unix.Unmount(point, 0); err != nil {
			if err := unix.Unmount(point, unix.MNT_DETACH); err != nil {
				return fmt.Errorf("cannot unmount %s: %w", point, err)
			}
		}
	}
	return freeLoops(dir)
}

// freeLoops frees the loop devices of files below dir. The kernel also frees those that croft made,
// some time after their last use; either is fine.
func freeLoops(dir string) error {
	deadline := time.Now().Add(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ; ; <-tick.C {
		devices, err := Loops(dir)
		if err != nil || len(devices) == 0 {
			return err
		}
		for _, device := range devices {
			out, freeErr := exec.Command("losetup", "-d", device).CombinedOutput()
			if freeErr != nil {
				err = fmt.Errorf("cannot free %s: %w: %s", device, freeErr, out)
			}
		}
		if time.Now().After(deadline) {
			return errors.Join(errors.New("loop devices stay: "+strings.Join(devices, ", ")), err)
		}
	}
}

// Mounts are the mount points below dir, in the order in which they were mounted.
func Mounts(dir string) ([]string, error) {
	mounted, err := mounts.Read()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, path := range mounted.Within(dir).Paths() {
		if path != dir {
			out = append(out, path)
		}
	}
	return out, nil
}

// Loops are the loop devices whose file is below dir.
func Loops(dir string) ([]string, error) {
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return nil, err
	}
	var out []string
	for _, file := range files {
		// A device that has disappeared meanwhile has no such file.
		backing, err := os.ReadFile(file)
		if err == nil && strings.HasPrefix(string(backing), dir+"/") {
			out = append(out, "/dev/"+strings.Split(file, "/")[3])
		}
	}
	return out, nil
}

// Disk makes a disk of that many GiB, a loop device on a sparse file, and returns its path. It takes no
// space until it is written to.
func (w *World) Disk(gib int64) string {
	w.Helper()
	file, err := os.CreateTemp(w.Dir, "disk-")
	if err == nil {
		err = file.Truncate(gib << 30)
	}
	if err != nil {
		w.Fatal(err)
	}
	defer file.Close()
	out, err := exec.CommandContext(w.Context(), "losetup", "--find", "--show", file.Name()).Output()
	if err != nil {
		w.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
