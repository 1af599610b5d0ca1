package container

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/cmd/croftd/internal/cell"
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/stubs"
	"github.com/croft-edge/croft/pkg/nodestatus"
)

// mostInspected bounds how many containers are asked for their last log lines.
const mostInspected = 16

// lastWords is how long the last log lines of a container that runs again are shown.
const lastWords = time.Minute

// askContainers asks the module for its own state and for its containers.
func askContainers(ctx context.Context, client zbus.Client, s *nodestatus.Status) (err error) {
	containers := stubs.NewContainersStub(client)
	if s.Container, err = containers.Status(ctx); err != nil {
		return err
	}
	list, err := containers.List(ctx)
	if err != nil {
		// The module has answered the first call: a failing containerd doesn't make it silent.
		if s.Container.Error == "" {
			s.Container.Error = err.Error()
		}
		return nil
	}
	asked := 0
	for i, c := range list {
		well := c.State == node.ContainerRunning && c.Cause == "" && time.Since(time.Unix(0, c.Ended)) > lastWords
		if c.Ended == 0 || well || asked == mostInspected {
			continue
		}
		asked++
		if info, err := containers.Inspect(ctx, c.ID); err == nil {
			list[i] = info
		}
	}
	s.Containers, s.OwnContainers = splitOwn(list, func(c node.ContainerInfo) bool { return c.User == node.OwnUser })
	return nil
}

// splitOwn separates users' items from the node's own.
func splitOwn[T any](all []T, own func(T) bool) (users, nodes []T) {
	for _, one := range all {
		if own(one) {
			nodes = append(nodes, one)
		} else {
			users = append(users, one)
		}
	}
	return users, nodes
}

// askImages asks the module for its images; unanswered questions are left out.
func askImages(ctx context.Context, client zbus.Client, s *nodestatus.Status) error {
	images := stubs.NewImagesStub(client)
	status, err := images.Status(ctx)
	s.Image = status
	if err != nil {
		return nil
	}
	list, err := images.List(ctx)
	if err != nil {
		return nil
	}
	s.Images, _ = splitOwn(list, func(i node.Image) bool { return i.User == node.OwnUser })
	return nil
}

// check only warns: a node without containerd still accepts volumes; its running containers go on, and
// new ones wait.
func check(s nodestatus.Status) nodestatus.Check {
	switch c := s.Container; {
	case c.Error != "":
		return nodestatus.Warn("containers", "containerd doesn't answer: "+c.Error)
	case len(c.Missing) > 0:
		return nodestatus.Warn("containers", "this kernel can't hold containers to: "+cell.Some(c.Missing))
	case c.Runc != "":
		return nodestatus.Pass("containers", "containerd answers, every limit holds, runc is "+c.Runc)
	}
	return nodestatus.Pass("containers", "containerd answers, every limit holds")
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
