package container

import (
	"context"
	"os"
	"path/filepath"

	"github.com/croft-edge/croft/modules/container/containerd"
	"github.com/croft-edge/croft/modules/container/plan"
	"github.com/croft-edge/croft/modules/container/rootfs"
	"github.com/croft-edge/croft/modules/container/secret"
	"github.com/croft-edge/croft/modules/container/tasks"
	"github.com/croft-edge/croft/pkg/logs"
	"github.com/croft-edge/croft/pkg/node"
)

// TakeDown ends the containers of a stopped node, croft's own containerd and the log
// carrier, and removes the mounts and namespaces, as a reboot does. Images, layers, logs
// and volumes stay. Busy while a module is open on the containers: it would start them again.
func TakeDown(ctx context.Context, c Config) error {
	if err := c.Validate(); err != nil {
		return err
	}
	c = c.withDefaults()
	if _, err := os.Stat(c.records().Dir); os.IsNotExist(err) {
		return nil
	}
	lock, err := c.lock()
	if err != nil {
		return err
	}
	defer func() { _ = lock.Release() }()
	// The rest is taken down also when containerd can't be asked any more, or the log
	// carrier hangs.
	asked := endAll(ctx, c)
	var carrierEnd error
	for _, end := range []func() error{
		func() error { return c.groups().EndAll(ctx) },
		func() error { return containerd.TakeDown(ctx, c.Containerd) },
		func() error { carrierEnd = logs.TakeDown(ctx, c.Logs); return nil },
		func() error { return secret.TakeDown(c.RunDir) },
		func() error {
			return rootfs.TakeDown(ctx, rootfs.Config{RunDir: c.RunDir, StateDir: c.StateDir, Log: c.Log})
		},
	} {
		if err := end(); err != nil {
			return err
		}
	}
	if carrierEnd != nil {
		return carrierEnd // the folders stay, for another try
	}
	for _, dir := range []string{c.records().Dir, c.execs().Dir, c.runcDir(), filepath.Join(c.RunDir, "log", "c")} {
		if err := os.RemoveAll(dir); err != nil {
			return node.Errorf(node.Internal, "cannot remove the leftovers of containers: %w", err)
		}
	}
	return asked
}

// endAll ends the tasks of all containers in containerd, also of those without a record.
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
		all, err := client.Containers(in, "labels."+plan.LabelReservation)
		if err != nil {
			return containerd.Error(err, "list the containers of user %s", user)
		}
		for _, one := range all {
			t, _, err := tasks.Current(in, one)
			if err == nil && t != nil {
				err = tasks.Drop(in, t)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
