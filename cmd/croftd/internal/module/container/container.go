// Package container describes the container module: users' containers and their images.
package container

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/cmd/croftd/internal/ceiling"
	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/modules/container"
	"github.com/croft-edge/croft/modules/container/containerd"
	"github.com/croft-edge/croft/modules/container/image"
	"github.com/croft-edge/croft/modules/container/image/source"
	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/cgroup"
	"github.com/croft-edge/croft/pkg/changes"
	"github.com/croft-edge/croft/pkg/dial"
	"github.com/croft-edge/croft/pkg/fetch"
	"github.com/croft-edge/croft/pkg/logs"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/stubs"
	"github.com/croft-edge/croft/pkg/resources/parts"
	"github.com/croft-edge/croft/pkg/workload"
)

// workers is how many calls of the module run at once: questions about containers are answered while
// several containers are being made.
const workers = 12

// Descriptor describes the module.
func Descriptor() module.Descriptor {
	return module.Descriptor{
		Name: "container", Bus: node.ContainerModule, Summary: "users' containers and their images",
		Memory:   ceiling.AgentMemory,
		Settings: settings(),
		Commands: []module.Command{{
			Name: "down", Usage: "end the stopped node's containers, its own containerd and its log carrier; the node makes them again when it starts",
			Run: func(ctx context.Context, o module.Order) error { return TakeDown(ctx, o.Config, o.Processes) },
		}},
		Objects: []zbus.ObjectID{
			bus.Object(node.ContainerObject, node.ContainerVersion), bus.Object(node.ImageObject, node.ImageVersion), bus.Object(node.ChangesObject, node.ChangesVersion),
		},
		Serves: []workload.Type{workload.TypeContainer, workload.TypeZDB},
		// Layers are id-mapped in an overlay. open finds out which containerd there is.
		Constraints: func(f module.Facts) []module.Unmet {
			return append(f.NeedsKernel(5, 19), f.Needs(module.Overlay)...)
		},

		Open:    open,
		Ask:     askState,
		Changes: true,
		Kernel:  true,
		Parts: []module.Part{
			{Of: &parts.Container{}, Every: time.Minute, List: listContainers},
			{Of: &parts.Image{}, Every: time.Minute, List: listImages},
		},
		Check:   check,
		Metrics: metrics(),
		Table:   writeTables,
	}
}

func open(ctx context.Context, h module.Host) (*module.Instance, error) {
	cfg := moduleConfig(h.Config, h.Log)
	cfg.Image.Sources.Dialer = h.Dialer
	cfg.Image.Sources.Own = ownImages(h.Config, h.Log)
	told := changes.New()
	m, err := container.Open(ctx, cfg, told)
	if old := (*containerd.VersionError)(nil); errors.As(err, &old) {
		return nil, module.UnmetError{{What: "containerd " + containerd.Least + " or newer", Is: fmt.Sprintf("%q (%s)", old.Version, old.Whose)}}
	}
	if err != nil {
		return nil, err
	}
	return &module.Instance{
		Workers: workers, Features: m.Features(),
		Objects: []module.Object{
			module.Serves(node.ContainerObject, node.ContainerVersion, stubs.ContainersMethods(m.Containers())),
			module.Serves(node.ImageObject, node.ImageVersion, stubs.ImagesMethods(m.Images())),
			module.Serves(node.ChangesObject, node.ChangesVersion, stubs.ChangesMethods(told)),
		},
		Run:   m.Run,
		Close: func(context.Context) error { return m.Close() },
	}, nil
}

// moduleConfig is the module's configuration, without its dialer.
func moduleConfig(c config.Config, log zerolog.Logger) container.Config {
	k := c.Containers
	out := container.Config{
		RunDir: c.RunDir, StateDir: c.StateDir, Init: installed(k.InitBinary, "croft-init"), CgroupParent: "/" + k.Cgroup, PIDs: k.PIDs, Reserve: c.Reserve.Memory, Log: log,
		Rate:       cgroup.Rate{ReadBytes: k.ReadRate, WriteBytes: k.WriteRate, ReadOps: k.ReadOps, WriteOps: k.WriteOps},
		Containerd: containerd.Config{Address: k.Containerd, Own: k.OwnContainerd, Binary: k.ContainerdBinary, Log: log},
		Image: image.Config{
			Unpacking:  image.Unpacking{Command: []string{"/proc/self/exe", "unpack"}, Confine: ceiling.ConfineUnpack(c, log)},
			Sources:    source.Config{Config: fetch.Config{PlainHTTP: k.PlainHTTP}, Paths: k.ImagePaths},
			Limits:     image.Limits{MaxSize: int64(k.MaxImage), UserBudget: int64(k.UserImages)},
			Collection: image.Collection{Full: float64(k.ImageFull) / 100, Unused: k.ImageUnused},
			Log:        log,
		},
		Logs: LogConfig(c, log),
	}
	return out
}

// LogConfig is how the node's log carrier is started; containers and virtual machines have the same one.
func LogConfig(c config.Config, log zerolog.Logger) logs.Config {
	k := c.Containers
	return logs.Config{RunDir: c.RunDir, Dir: logFolder(c), Command: logCommand(c), Size: int64(k.LogSize), Files: int(k.LogFiles), Log: log}
}

// logFolder holds the log files of containers.
func logFolder(c config.Config) string { return filepath.Join(c.StateDir, "logs") }

// logCommand is the command that starts this program as the log carrier.
func logCommand(c config.Config) []string {
	return []string{
		"/proc/self/exe", "carrier", "log", "--run-dir", c.RunDir, "--dir", logFolder(c), "--log-level", c.LogLevel,
		"--size", strconv.FormatUint(c.Containers.LogSize, 10), "--files", strconv.FormatUint(c.Containers.LogFiles, 10),
	}
}

// TakeDown ends the containers of a stopped node, and removes the control groups of its processes.
func TakeDown(ctx context.Context, c config.Config, processes []ceiling.Process) error {
	err := container.TakeDown(ctx, moduleConfig(c, zerolog.Nop()))
	ceiling.RemoveGroups(c.RunDir, processes)
	return err
}

// OpenStreams opens containers' outputs and inputs, with dialer for images.
func OpenStreams(c config.Config, dialer *dial.Dialer, followers *logs.Followers, log zerolog.Logger) (*container.Streams, error) {
	cfg := moduleConfig(c, log)
	cfg.Image.Sources.Dialer = dialer
	return container.OpenStreams(cfg, followers)
}
