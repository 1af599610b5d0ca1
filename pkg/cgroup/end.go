package cgroup

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/mounts"
)

// killPause is how long killed processes get to end.
const killPause = 50 * time.Millisecond

// End kills the processes in the group at a path and in all below it, and removes these
// groups, in all hierarchies. It returns an error when ctx is done before they are gone.
func End(ctx context.Context, path string) error {
	mounted, err := mounts.Read()
	if err != nil {
		return err
	}
	var dirs []string
	for _, m := range mounted {
		if m.Type == "cgroup" || m.Type == "cgroup2" {
			dirs = append(dirs, filepath.Join(m.Path, path))
		}
	}
	return endAll(ctx, dirs)
}

// End kills the processes in the group and in all below it, and removes these groups. Its processes can't fork
// meanwhile. It returns an error when ctx is done before they are gone.
func (g Group) End(ctx context.Context) error {
	for _, p := range g.places {
		Hold(p.dir, PIDs(1)) // fewer than there are: none can be added
		_ = write(filepath.Join(p.dir, "cgroup.kill"), "1")
	}
	return endAll(ctx, g.Folders())
}

func endAll(ctx context.Context, dirs []string) error {
	tick := time.NewTicker(killPause)
	defer tick.Stop()
	for {
		left := ""
		for _, dir := range dirs {
			if stays := end(dir); stays != "" {
				left = stays
			}
		}
		if left == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Wrapf(ctx.Err(), "cannot remove control group %s: its processes don't end", left)
		case <-tick.C:
		}
	}
}

// end kills the processes in a folder of control groups and removes it, and
// returns it when it is still there.
func end(dir string) string {
	var groups []string
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			groups = append(groups, path)
		}
		return nil
	})
	for _, group := range slices.Backward(groups) {
		for _, pid := range processes(group) {
			if pid > 1 {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
		_ = os.Remove(group)
	}
	if _, err := os.Stat(dir); err != nil {
		return ""
	}
	return dir
}
