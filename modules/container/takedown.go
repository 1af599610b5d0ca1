package container

import (
	"context"
	"os"
	"path/filepath"

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
		func() error { return endGroup(ctx, c.CgroupParent) },
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
