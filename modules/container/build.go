package container

import (
	"context"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/container/containerd"
	"github.com/croft-edge/croft/modules/container/groups"
	"github.com/croft-edge/croft/modules/container/launch"
	"github.com/croft-edge/croft/modules/container/managed"
	"github.com/croft-edge/croft/modules/container/plan"
	"github.com/croft-edge/croft/modules/container/rootfs"
	"github.com/croft-edge/croft/modules/container/runc"
	"github.com/croft-edge/croft/modules/container/secret"
	"github.com/croft-edge/croft/modules/container/spec"
	"github.com/croft-edge/croft/modules/container/tasks"
	"github.com/croft-edge/croft/pkg/node"
)

const (
	runtimeName = "io.containerd.runc.v2"
	// undoTime bounds the undoing of a failed call, also when the call's context is done.
	undoTime = 30 * time.Second
	// ownIOWeight is the disk share of the node's own containers, zdb's, in which many users have
	// namespaces. One user's container has 100.
	ownIOWeight = 200
)

// rootMaker makes root file systems.
type rootMaker interface {
	Make(ctx context.Context, spec rootfs.Spec) (rootfs.Made, error)
	Within(id string, fn func(root string) error) error
}

// builder makes the parts of a container: its root file system, its output, its record, and
// the container in containerd.
type builder struct {
	daemon  tasks.Daemon
	labels  *tasks.Labels
	table   *managed.Table
	roots   rootMaker
	secrets *secret.Store
	outputs launch.Outputs
	groups  groups.Groups
	runtime launch.Runtime
	host    spec.Host
	// limits are those of each container.
	limits limits
	log    zerolog.Logger
}

// limits of each container; 0 for the defaults of package spec.
type limits struct{ pids, ioWeight uint64 }

// build makes the parts of a held container. When it fails the caller removes them.
func (b builder) build(ctx context.Context, held *managed.Container, p plan.Plan) (*launch.Fresh, error) {
	made, err := b.roots.Make(ctx, p.Root)
	if err != nil {
		return nil, err
	}
	var process spec.Process
	err = b.roots.Within(held.ID, func(root string) (err error) {
		process, err = p.Process(root)
		return err
	})
	if err == nil && len(p.Spec.Secrets) > 0 {
		err = b.secrets.Own(p.Spec.User, held.ID, made.Range.Base+process.UID, made.Range.Base+process.GID)
	}
	if err != nil {
		return nil, err
	}
	built, err := spec.Build(spec.Config{
		ID: held.ID, Root: made.Root, UserNS: made.UserNS, NetNS: made.NetNS, Base: made.Range.Base, Process: process,
		CgroupsPath: b.groups.Path(held.ID), Hostname: p.Spec.Hostname,
		CPU: p.Spec.CPU, Memory: p.Spec.Memory, PIDs: b.limits.pids, IOWeight: b.ioWeight(p.Spec.User),
		NoCapabilities: p.Spec.NoCapabilities, ReadOnly: p.Spec.ReadOnly,
	}, b.host)
	if err != nil {
		return nil, err
	}
	fifos, err := b.outputs.Open(ctx, held.ID, p.Spec.User)
	if err != nil {
		return nil, err
	}
	// The record comes first: every container in containerd has one.
	old, _ := b.table.Record(held.ID)
	if err := b.table.Keep(held, managed.AfterMake(old, p)); err != nil {
		return nil, err
	}
	c, err := b.daemon.Client(ctx)
	if err != nil {
		return nil, err
	}
	p.Labels[plan.LabelNamespace] = made.NetNS
	// A named lease, so that the client makes none: no part of a container needs
	// one, and it would stay for a day where containerd is killed meanwhile.
	in := leases.WithLease(b.daemon.Namespace(ctx, p.Spec.User), held.ID)
	began := time.Now()
	defer b.labels.Forget(p.Spec.User) // containerd's event comes later
	inContainerd, err := c.NewContainer(in, held.ID,
		client.WithSpec(built),
		client.WithRuntime(runtimeName, b.runtime.Options(runc.Program)),
		client.WithContainerLabels(p.Labels))
	tasks.LogTime(b.log, held.ID, "create", began)
	if err != nil {
		return nil, containerd.Error(err, "make container %s", held.ID)
	}
	return &launch.Fresh{Container: inContainerd, Root: made, Process: built.Process, FIFOs: fifos}, nil
}

func (b builder) ioWeight(user string) uint64 {
	if user == node.OwnUser {
		return ownIOWeight
	}
	return b.limits.ioWeight
}
