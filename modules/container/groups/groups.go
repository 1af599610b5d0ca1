// Package groups owns the control groups of containers: PARENT, which bounds all of them
// together; PARENT/ID, a container's own, which runc makes; and PARENT/.shims, which is
// containerd's for its shims.
package groups

import (
	"context"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/cgroup"
	"github.com/croft-edge/croft/pkg/node"
)

// Groups are the control groups of a node's containers.
type Groups struct {
	// Parent is the control group of all of them, such as "/croft".
	Parent string
	Log    zerolog.Logger
}

// Path is the control group of a container.
func (g Groups) Path(id string) string { return g.Parent + "/" + id }

// ShimPath is the control group of the shims, the processes that containerd starts for each
// container. It is a part of the containers' group, so that many containers don't take what
// containerd itself may have. No container's ID begins with a dot.
func (g Groups) ShimPath() string { return g.Parent + "/.shims" }

// MakeShims makes the control group of the shims and returns its path. It is empty where
// it can't be made: shims are in containerd's group then.
func (g Groups) MakeShims() string {
	group, err := cgroup.At(g.ShimPath())
	if err == nil {
		err = group.Make()
	}
	if err != nil || len(group.Folders()) == 0 {
		return ""
	}
	return g.ShimPath()
}

// End kills the processes in a container's control group and those below it, and removes it.
func (g Groups) End(ctx context.Context, id string) error { return end(ctx, g.Path(id)) }

// EndAll does so for all containers and their shims.
func (g Groups) EndAll(ctx context.Context) error { return end(ctx, g.Parent) }

func end(ctx context.Context, path string) error {
	if err := cgroup.End(ctx, path); err != nil {
		return node.Errorf(node.Busy, "cannot end the processes of a container: %w", err)
	}
	return nil
}
