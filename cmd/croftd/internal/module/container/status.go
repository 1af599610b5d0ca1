package container

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/cmd/croftd/internal/cell"
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/stubs"
	"github.com/croft-edge/croft/pkg/nodestatus"
	"github.com/croft-edge/croft/pkg/resources/host"
	"github.com/croft-edge/croft/pkg/resources/parts"
)

// mostInspected bounds how many containers are asked for their last log lines.
const mostInspected = 16

// lastWords is how long the last log lines of a container that runs again are shown.
const lastWords = time.Minute

// askState asks the module for its own state. What it doesn't know of its images is left out.
func askState(ctx context.Context, client zbus.Client, s *host.ModuleSpec) error {
	status, err := stubs.NewContainersStub(client).Status(ctx)
	if err != nil {
		return err
	}
	s.Container = &status
	if images, err := stubs.NewImagesStub(client).Status(ctx); err == nil {
		s.Image = &images
	}
	return nil
}

// listContainers lists the containers, with the last log lines of those that have ended by themselves of late.
func listContainers(ctx context.Context, client zbus.Client) ([]resource.Resource, error) {
	containers := stubs.NewContainersStub(client)
	list, err := containers.List(ctx)
	if err != nil {
		return nil, err
	}
	asked := 0
	out := make([]resource.Resource, 0, len(list))
	for _, c := range list {
		well := c.State == node.ContainerRunning && c.Cause == "" && time.Since(time.Unix(0, c.Ended)) > lastWords
		if c.Ended != 0 && !well && asked < mostInspected {
			asked++
			if info, err := containers.Inspect(ctx, c.ID); err == nil {
				c = info
			}
		}
		out = append(out, parts.NewContainer(c))
	}
	return out, nil
}

func listImages(ctx context.Context, client zbus.Client) ([]resource.Resource, error) {
	list, err := stubs.NewImagesStub(client).List(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]resource.Resource, 0, len(list))
	for _, i := range list {
		out = append(out, parts.NewImage(i))
	}
	return out, nil
}

// check only warns: a node without containerd still accepts volumes; its running containers go on, and
// new ones wait.
func check(s nodestatus.Status) host.Check {
	switch c := s.Container; {
	case c.Error != "":
		return host.Warn("containers", "containerd doesn't answer: "+c.Error)
	case c.Runc != "":
		return host.Pass("containers", "containerd answers, runc is "+c.Runc)
	}
	return host.Pass("containers", "containerd answers")
}

func metrics() []module.Metric {
	users := func(s nodestatus.Status) []node.ContainerInfo { return s.Containers }
	own := func(s nodestatus.Status) []node.ContainerInfo { return s.OwnContainers }
	return []module.Metric{
		{Name: "croft_containers", Help: "users' containers on the node", Labels: []string{"state"}, Read: byState(users)},
		{Name: "croft_container_restarts", Help: "starts after the first, summed over the users' containers that there are", Read: restarts(users)},
		{Name: "croft_own_containers", Help: "containers that the node runs for itself", Labels: []string{"state"}, Read: byState(own)},
		{Name: "croft_own_container_restarts", Help: "starts after the first, summed over those that there are", Read: restarts(own)},
		{Name: "croft_images", Help: "images on the node", Read: func(s nodestatus.Status, value module.Value) { value(float64(s.Image.Images)) }},
		{Name: "croft_image_bytes", Help: "disk space of images", Read: func(s nodestatus.Status, value module.Value) { value(float64(s.Image.Size)) }},
		{Name: "croft_log_carrier_bytes", Help: "memory of the log carrier", Read: func(s nodestatus.Status, value module.Value) { value(float64(s.Container.LogCarrierMemory)) }},
	}
}

// byState counts containers in each state.
func byState(of func(nodestatus.Status) []node.ContainerInfo) func(nodestatus.Status, module.Value) {
	return func(s nodestatus.Status, value module.Value) {
		states := map[string]int{node.ContainerCreated: 0, node.ContainerRunning: 0, node.ContainerWaiting: 0, node.ContainerBroken: 0}
		for _, c := range of(s) {
			states[c.State]++
		}
		for state, n := range states {
			value(float64(n), state)
		}
	}
}

func restarts(of func(nodestatus.Status) []node.ContainerInfo) func(nodestatus.Status, module.Value) {
	return func(s nodestatus.Status, value module.Value) {
		sum := uint64(0)
		for _, c := range of(s) {
			sum += c.Restarts
		}
		value(float64(sum))
	}
}

func writeTables(row module.Row, s nodestatus.Status, _ time.Time) {
	writeContainers(row, "CONTAINER", s.Containers)
	writeContainers(row, "OWN CONTAINER", s.OwnContainers)
	writeImages(row, s.Images)
}

// writeContainers prints containers of a kind, and the last log lines of those that have any.
func writeContainers(row module.Row, kind string, containers []node.ContainerInfo) {
	if len(containers) == 0 {
		return
	}
	row("")
	row(kind, "STATE", "PID", "RESTARTS", "LAST EXIT", "NEXT START", "USER", "IMAGE", "CAUSE", "DRIFT")
	for _, c := range containers {
		row(c.ID, c.State, fmt.Sprint(c.PID), fmt.Sprint(c.Restarts), exit(c), cell.Time(c.Next), cell.ID(c.User), cell.Digest(c.Image),
			cell.Printable(cmp.Or(c.Cause, c.OOM, "-")), cell.Printable(cmp.Or(c.Drift, "-")))
	}
	for _, c := range containers {
		if len(c.LastLog) == 0 {
			continue
		}
		row("")
		row("the last lines of " + c.ID + ":")
		for _, line := range c.LastLog {
			row("  " + cell.Printable(line))
		}
	}
}

// writeImages prints reservations' images.
func writeImages(row module.Row, images []node.Image) {
	if len(images) == 0 {
		return
	}
	row("")
	row("IMAGE OF", "REFERENCE", "DIGEST", "SIZE", "STATE")
	for _, i := range images {
		row(i.Label, cell.Printable(i.Reference), cmp.Or(cell.Digest(i.Digest), "-"), cell.MiB(i.Size), progress(i))
	}
}

func progress(i node.Image) string {
	switch {
	case i.Ready:
		return "ready"
	case i.Unpacking:
		return "unpacking"
	case i.Total > 0:
		return cell.MiB(i.Done) + " of " + cell.MiB(i.Total)
	}
	return cell.MiB(i.Done) + " so far"
}

// exit is the status and time of the last end that the node didn't order.
func exit(c node.ContainerInfo) string {
	if c.Ended == 0 {
		return "-"
	}
	return fmt.Sprintf("%d, %s", c.ExitCode, cell.Time(c.Ended))
}
