package daemon

import (
	"context"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/modules/container"
	"github.com/croft-edge/croft/modules/container/containerd"
	"github.com/croft-edge/croft/modules/container/image"
	"github.com/croft-edge/croft/modules/container/image/source"
	"github.com/croft-edge/croft/modules/container/logs"
	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/cgroup"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/supervise"
)

// containerWorkers is how many calls of the container module run at once: what
// is asked of containers is answered while several are being made.
const containerWorkers = 12

// startContainer serves users' containers and their images on the bus.
// containerd may need its time, and a node without one has volumes and
// networks all the same: until the module is there, its callers are told why not.
func (d *daemon) startContainer(g *supervise.Group) error {
	cfg := containerConfig(d.Config.Config, d.Log)
	cfg.Image.Sources.Dialer = d.dialer
	if err := cfg.Validate(); err != nil {
		return err
	}
	l := newLate()
	options := d.options
	options.Workers = containerWorkers
	server, err := bus.NewServer(d.bus, node.ContainerModule, options)
	if err == nil {
		err = bus.Register[node.Containers](server, bus.Object(node.ContainerObject, node.ContainerVersion), lateContainers{l})
	}
	if err == nil {
		err = bus.Register[node.Images](server, bus.Object(node.ImageObject, node.ImageVersion), lateImages{l})
	}
	if err != nil {
		return err
	}
	g.Start(supervise.Part{Name: "container", Within: moduleStop, Run: func(ctx context.Context) error {
		// What watches the containers goes on until the calls that have begun are over.
		watching, stop := context.WithCancel(context.WithoutCancel(ctx))
		var watch sync.WaitGroup
		watch.Go(func() {
			_ = supervise.Keep(watching, d.Log, "container", supervise.DefaultBackoff(), func(ctx context.Context) error {
				cfg.Image.Sources.Own = ownImages(d.Config.Config, d.Log)
				d.watchContainers(ctx, cfg, l)
				return ctx.Err()
			})
		})
		err := server.Run(ctx)
		stop()
		watch.Wait()
		return err
	}})
	return nil
}

// openPause is how long to wait before the module is opened again.
const openPause = 5 * time.Second

// watchContainers opens the module, again and again until it can be, and runs
// it until ctx is done. Why it can't be is said once, and whenever that changes.
func (d *daemon) watchContainers(ctx context.Context, cfg container.Config, l *late) {
	said := ""
	for ctx.Err() == nil {
		m, err := container.Open(ctx, cfg)
		l.tell(m, err)
		if err == nil {
			_ = supervise.Keep(ctx, d.Log, "container", supervise.DefaultBackoff(), m.Run) // it says itself what ends
			l.tell(nil, node.Errorf(node.Transient, "the node stops"))
			if err := m.Close(); err != nil {
				d.Log.Error().Err(err).Str("type", "container").Str("step", "close").Msg("the container module didn't close well")
			}
			return
		}
		if text := err.Error(); text != said && ctx.Err() == nil {
			d.Log.Error().Err(err).Str("type", "container").Str("step", "open").Msg("no container can be made now; everything else goes on")
			said = text
		}
		select {
		case <-ctx.Done():
		case <-time.After(openPause):
		}
	}
}

// containerConfig is what the container module is opened with, but for its dialer.
func containerConfig(c config.Config, log zerolog.Logger) container.Config {
	k := c.Containers
	out := container.Config{
		RunDir: c.RunDir, StateDir: c.StateDir, Init: installed(k.InitBinary, "croft-init"), CgroupParent: "/" + k.Cgroup, PIDs: k.PIDs, Reserve: c.Reserve.Memory, Log: log,
		Rate:       cgroup.Rate{ReadBytes: k.ReadRate, WriteBytes: k.WriteRate, ReadOps: k.ReadOps, WriteOps: k.WriteOps},
		Containerd: containerd.Config{Address: k.Containerd, Own: k.OwnContainerd, Binary: k.ContainerdBinary, Log: log},
		Image: image.Config{
			Unpacking:  image.Unpacking{Command: []string{"/proc/self/exe", "unpack"}, Confine: confineUnpack(c, log)},
			Sources:    source.Config{PlainHTTP: k.PlainHTTP, Paths: k.ImagePaths},
			Limits:     image.Limits{MaxSize: int64(k.MaxImage), UserBudget: int64(k.UserImages)},
			Collection: image.Collection{Full: float64(k.ImageFull) / 100, Unused: k.ImageUnused},
			Log:        log,
		},
		Logs: logs.Config{Dir: logFolder(c), Size: int64(k.LogSize), Files: int(k.LogFiles), Log: log},
	}
	out.Logs.Command = logCommand(c)
	return out
}

// logFolder holds the log files of containers.
func logFolder(c config.Config) string { return filepath.Join(c.StateDir, "logs") }

// logCommand starts this very program as the log carrier.
func logCommand(c config.Config) []string {
	return []string{
		"/proc/self/exe", "carrier", "log", "--run-dir", c.RunDir, "--dir", logFolder(c), "--log-level", c.LogLevel,
		"--size", strconv.FormatUint(c.Containers.LogSize, 10), "--files", strconv.FormatUint(c.Containers.LogFiles, 10),
	}
}

// TakeDownContainers ends the containers of a stopped node.
func TakeDownContainers(ctx context.Context, c config.Config) error {
	err := container.TakeDown(ctx, containerConfig(c, zerolog.Nop()))
	removeGroups(c)
	return err
}

// mostInspected bounds how many containers are asked for their last words.
const mostInspected = 16

// lastWords is how long those of a container are told that runs again.
const lastWords = time.Minute

// askContainers asks the container module how it is and what it has.
func (m modules) askContainers(ctx context.Context) ([]node.ContainerInfo, node.ContainerStatus, error) {
	status, err := m.containers.Status(ctx)
	if err != nil {
		return nil, status, err
	}
	list, err := m.containers.List(ctx)
	if err != nil {
		// It has answered before: that containerd is away is no silence.
		if status.Error == "" {
			status.Error = err.Error()
		}
		return nil, status, nil
	}
	asked := 0
	for i, c := range list {
		well := c.State == node.ContainerRunning && c.Cause == "" && time.Since(time.Unix(0, c.Ended)) > lastWords
		if c.Ended == 0 || well || asked == mostInspected {
			continue
		}
		asked++
		if info, err := m.containers.Inspect(ctx, c.ID); err == nil {
			list[i] = info
		}
	}
	return list, status, nil
}

// splitOwn tells users' things and the node's own apart.
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

// askImages asks it what it has of images. What can't be told now is left out.
func (m modules) askImages(ctx context.Context) ([]node.Image, node.ImageStatus) {
	status, err := m.images.Status(ctx)
	if err != nil {
		return nil, status
	}
	list, err := m.images.List(ctx)
	if err != nil {
		return nil, status
	}
	return list, status
}
