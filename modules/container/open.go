package container

import (
	"context"
	"os"
	"path/filepath"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/container/containerd"
	"github.com/croft-edge/croft/modules/container/groups"
	"github.com/croft-edge/croft/modules/container/image/catalog"
	"github.com/croft-edge/croft/modules/container/launch"
	"github.com/croft-edge/croft/modules/container/leftovers"
	"github.com/croft-edge/croft/modules/container/managed"
	"github.com/croft-edge/croft/modules/container/rootfs"
	"github.com/croft-edge/croft/modules/container/runc"
	"github.com/croft-edge/croft/modules/container/secret"
	"github.com/croft-edge/croft/modules/container/spec"
	"github.com/croft-edge/croft/modules/container/supervise"
	"github.com/croft-edge/croft/modules/container/tasks"
	"github.com/croft-edge/croft/pkg/changes"
	"github.com/croft-edge/croft/pkg/logs"
	"github.com/croft-edge/croft/pkg/node"
)

// Open opens the module on the containers that exist: those that run are adopted as
// they are, and none is touched. Nothing is started again before Run. Busy when
// another module has them open. told is told whose containers change.
func Open(ctx context.Context, c Config, told *changes.Hub) (*Module, error) {
	return open(ctx, c, told, openImageStore)
}

// open is Open with another image store.
func open(ctx context.Context, c Config, told *changes.Hub, images openImages) (*Module, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	for _, dir := range []string{c.records().Dir, c.execs().Dir} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return nil, node.Errorf(node.Internal, "cannot make the containers' folder: %w", err)
		}
	}
	lock, err := c.lock()
	if err != nil {
		return nil, err
	}
	m, err := openLocked(ctx, c, told, images)
	if err != nil {
		_ = lock.Release()
		return nil, err
	}
	m.lock = lock
	return m, nil
}

// openLocked is open once the containers are locked.
func openLocked(ctx context.Context, c Config, told *changes.Hub, images openImages) (*Module, error) {
	runtime, err := openRuntime(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := c.groups().Bound(c.Reserve); err != nil {
		c.Log.Warn().Str("type", "container").Str("step", "open").Err(err).Msg("cannot limit all containers together: the node's own share isn't protected")
	}
	roots, err := rootfs.Open(rootfs.Config{RunDir: c.RunDir, StateDir: c.StateDir, Log: c.Log})
	if err != nil {
		return nil, err
	}
	secrets, err := secret.Open(c.RunDir)
	if err != nil {
		return nil, err
	}
	daemon, err := containerd.Open(ctx, c.Containerd)
	if err != nil {
		return nil, err
	}
	c.Image.Lists = &catalog.Lists{}
	m := &Module{daemon: daemon, roots: roots, outputs: logs.NewKeeper(c.Logs), log: c.Log, background: newBackground()}
	cleaner := leftovers.Cleaner{Daemon: daemon, Groups: c.groups(), RuncDir: c.runcDir(), Log: c.Log}
	if m.table, err = managed.Open(c.records()); err == nil {
		m.images, err = images(c, daemon, imageUse{inUse: c.inUse(daemon), emptied: cleaner.ClearNamespace})
	}
	if err != nil {
		_ = m.Close()
		return nil, err
	}
	m.wire(c, runtime, secrets, cleaner, told)
	return m, nil
}

// wire makes the parts of an opened module that change and show containers.
func (m *Module) wire(c Config, runtime runtimeInfo, secrets *secret.Store, cleaner leftovers.Cleaner, told *changes.Hub) {
	index := c.index(m.daemon)
	index.Labels = &tasks.Labels{}
	launchRuntime := launch.Runtime{Dir: c.runcDir(), Wrapper: c.wrapper(), ShimGroup: c.groups().MakeShims}
	m.launcher = launch.New(launch.Config{
		Daemon: m.daemon, RootFS: m.roots, Outputs: m.outputs, Records: m.table, Leftovers: cleaner,
		Groups: c.groups(), Runtime: launchRuntime, Profile: runtime.profile, Rate: c.Rate, Log: c.Log,
	})
	remover := remover{
		index: index, table: m.table, roots: m.roots, secrets: secrets, leftovers: cleaner,
		logs: logRemover{table: m.table, outputs: m.outputs, images: m.images.Images(), dir: c.Logs.Dir},
	}
	m.supervisor = supervise.New(supervise.Config{
		Daemon: m.daemon, Index: index, Changes: told, Images: c.Image.Lists, Table: m.table, Starter: m.launcher, Exits: exits{groups: c.groups(), logDir: c.Logs.Dir},
		Sweeper: sweeper{index: index, table: m.table, roots: m.roots, secrets: secrets, leftovers: cleaner, remover: remover, execs: c.execs(), log: c.Log}, Spawn: m.background.spawn, Log: c.Log,
	})
	m.mounts = &mountWatch{dir: filepath.Join(c.RunDir, "container"), hub: told}
	viewer := viewer{index: index, table: m.table, roots: m.roots, ended: m.supervisor.Ended}
	m.service = service{
		background: m.background, remover: remover, viewer: viewer, index: index, logDir: c.Logs.Dir,
		starter: starter{index: index, table: m.table, launcher: m.launcher, viewer: viewer, log: c.Log},
		status:  statusReader{daemon: m.daemon, outputs: m.outputs, table: m.table, runtime: runtime},
		creator: creator{
			index: index, table: m.table, images: m.images, roots: m.roots, secrets: secrets, launcher: m.launcher,
			remover: remover, viewer: viewer, init: c.Init, background: m.background, log: c.Log,
			builder: builder{
				daemon: m.daemon, labels: index.Labels, table: m.table, roots: m.roots, secrets: secrets, outputs: m.outputs, groups: c.groups(),
				runtime: launchRuntime, host: runtime.host, limits: limits{pids: c.PIDs, ioWeight: c.IOWeight}, log: c.Log,
			},
		},
	}
}

// runtimeInfo describes the machine's runc, and the limits that it can hold.
type runtimeInfo struct {
	host spec.Host
	// profile is the containers' AppArmor profile.
	profile *spec.Loaded
	// version is runc's.
	version string
}

// openRuntime detects which limits the machine can hold, loads the profile where it has AppArmor, and
// installs the script that containerd starts as the runtime. Refused when runc is too old, nsenter is
// missing, or the script can't be run.
func openRuntime(ctx context.Context, c Config) (runtimeInfo, error) {
	found, err := runc.Find(ctx, runc.Program)
	if err != nil {
		return runtimeInfo{}, err
	}
	enter, err := runc.FindEnter()
	if err != nil {
		return runtimeInfo{}, err
	}
	host, err := spec.Detect(spec.Probe{})
	if err == nil {
		warnUnconfined(c.Log, host)
		host, err = spec.LoadProfile(host)
	}
	if err != nil {
		return runtimeInfo{}, err
	}
	wrapper := runc.Wrapper{Path: c.wrapper(), Runc: found.Path, Enter: enter, Containers: filepath.Join(c.RunDir, "container"), Limits: host.SetLimits()}
	return runtimeInfo{host: host, profile: spec.KeepLoaded(host), version: found.Version}, wrapper.Install(ctx)
}

// warnUnconfined warns where the kernel has AppArmor, and containers run without it.
func warnUnconfined(log zerolog.Logger, host spec.Host) {
	if host.NoAppArmor != "" {
		log.Warn().Str("type", "container").Str("step", "open").Str("lacks", host.NoAppArmor).
			Msg("the kernel has AppArmor, but no profile can be loaded: containers run without one, the other controls hold")
	}
}

// exits implements supervise.Exits.
type exits struct {
	groups groups.Groups
	logDir string
}

// OutOfMemory implements supervise.Exits.
func (e exits) OutOfMemory(id string, code uint64) string { return e.groups.OutOfMemory(id, code) }

// LastLines implements supervise.Exits.
func (e exits) LastLines(id string) []string {
	lines, err := lastOf(e.logDir, id, lastLines)
	if err != nil {
		return nil
	}
	out := make([]string, 0, len(lines))
	for _, l := range lines {
		out = append(out, l.Text)
	}
	return out
}

// inUse are the containers that exist: their images are in use, which have the same labels.
func (c Config) inUse(d tasks.Daemon) func(ctx context.Context) (map[string]bool, error) {
	index := c.index(d)
	return func(ctx context.Context) (map[string]bool, error) {
		all, err := index.All(ctx)
		used := make(map[string]bool, len(all))
		for id := range all {
			used[id] = true
		}
		return used, err
	}
}
