package container

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/container/containerd"
	"github.com/croft-edge/croft/modules/container/logs"
	"github.com/croft-edge/croft/modules/container/rootfs"
	"github.com/croft-edge/croft/modules/container/secret"
	"github.com/croft-edge/croft/pkg/node"
)

// TakeDown ends all that a stopped node has running of containers, croft's own
// containerd and the log carrier, and removes the mounts and namespaces: what a
// reboot does to them. Images, layers, logs and volumes stay. Busy while a module
// is open on them: it would make it all again.
func TakeDown(ctx context.Context, c Config) error {
	if err := c.Validate(); err != nil {
		return err
	}
	c = c.withDefaults()
	if _, err := os.Stat(c.supervised()); os.IsNotExist(err) {
		return nil
	}
	lock, err := c.lock()
	if err != nil {
		return err
	}
	defer func() { _ = unlock(lock) }()
	// A containerd that can't be asked any more keeps nothing else from its end.
	asked := endAll(ctx, c)
	for _, end := range []func() error{
		func() error { return endGroups(ctx, c.CgroupParent) },
		func() error { return containerd.TakeDown(ctx, c.Containerd) },
		func() error { return logs.TakeDown(ctx, c.Logs) },
		func() error { return secret.TakeDown(c.RunDir) },
		func() error {
			return rootfs.TakeDown(ctx, rootfs.Config{RunDir: c.RunDir, StateDir: c.StateDir, Log: c.Log})
		},
	} {
		if err := end(); err != nil {
			return err
		}
	}
	for _, dir := range []string{c.supervised(), c.execs(), c.runc(), filepath.Join(c.RunDir, "log", "c")} {
		if err := os.RemoveAll(dir); err != nil {
			return node.Errorf(node.Internal, "cannot remove what is left of containers: %w", err)
		}
	}
	return asked
}

// endAll ends what runs in all containers of this node, also of those that
// nobody remembers.
func endAll(ctx context.Context, c Config) error {
	d, err := containerd.Open(ctx, c.Containerd)
	if err != nil {
		return err
	}
	defer d.Close()
	users, err := d.Users(ctx)
	if err != nil {
		return err
	}
	client, err := d.Client(ctx)
	if err != nil {
		return err
	}
	for _, user := range users {
		in := d.Namespace(ctx, user)
		all, err := client.Containers(in, "labels."+labelReservation)
		if err != nil {
			return containerd.Error(err, "list the containers of user %s", user)
		}
		for _, one := range all {
			t, _, err := task(in, one)
			if err == nil && t != nil {
				err = drop(in, t)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// endGroups kills who is left in the control groups below parent, and removes
// these, in all hierarchies.
func endGroups(ctx context.Context, parent string) error {
	points, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("cgroup", "cgroup2"))
	if err != nil {
		return node.Errorf(node.Internal, "cannot look for control groups: %w", err)
	}
	tick := time.NewTicker(killPause)
	defer tick.Stop()
	for {
		left := ""
		for _, point := range points {
			if dir := endGroup(filepath.Join(point.Mountpoint, parent)); dir != "" {
				left = dir
			}
		}
		if left == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return node.Errorf(node.Busy, "cannot remove control group %s: its processes don't end (%w)", left, ctx.Err())
		case <-tick.C:
		}
	}
}

// killPause is how long who was killed gets to end.
const killPause = 50 * time.Millisecond

// endGroup kills who is in a folder of control groups and removes it, and
// returns it when it is still there.
func endGroup(dir string) string {
	var groups []string
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			groups = append(groups, path)
		}
		return nil
	})
	for _, group := range slices.Backward(groups) {
		raw, _ := os.ReadFile(filepath.Join(group, "cgroup.procs"))
		for _, line := range strings.Fields(string(raw)) {
			if pid, err := strconv.Atoi(line); err == nil && pid > 1 {
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
