package nodetest

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/oci"

	"github.com/croft-edge/croft/pkg/workload"
)

// MakeForeign makes a container that isn't croft's, with that ID, in the node's containerd, in the namespace of the user of beside.
func (c *Containers) MakeForeign(beside *workload.Reservation, id string) {
	c.tb.Helper()
	c.containerd(func(ctx context.Context, it *client.Client) error {
		in, _, err := find(ctx, it, beside.ID)
		if err != nil {
			return err
		}
		_, err = it.NewContainer(in, id, client.WithSpec(&oci.Spec{Hostname: "foreign"}), client.WithContainerLabels(map[string]string{"owner": "somebody"}))
		return err
	})
}

// Disown takes the labels off r's container, which goes on: it isn't croft's any more.
func (c *Containers) Disown(r *workload.Reservation) {
	c.tb.Helper()
	c.containerd(func(ctx context.Context, it *client.Client) error {
		in, _, err := find(ctx, it, r.ID)
		if err == nil {
			_, err = it.ContainerService().Update(in, containers.Container{ID: r.ID, Labels: map[string]string{"owner": "somebody"}}, "labels")
		}
		return err
	})
}

// InContainerd is all that the node's containerd knows of the container of that ID, with its process.
func (c *Containers) InContainerd(id string) (out string) {
	c.tb.Helper()
	c.containerd(func(ctx context.Context, it *client.Client) error {
		in, one, err := find(ctx, it, id)
		if err != nil {
			out = err.Error()
			return nil
		}
		info, err := one.Info(in)
		if err != nil {
			return err
		}
		raw, err := json.Marshal(info)
		if err != nil {
			return err
		}
		out = string(raw)
		if task, err := one.Task(in, nil); err == nil {
			out += fmt.Sprint(" process ", task.Pid())
		}
		return nil
	})
	return out
}
