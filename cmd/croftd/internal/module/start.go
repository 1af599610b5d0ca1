package module

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/modules/debug"
	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/dial"
	"github.com/croft-edge/croft/pkg/kernel"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/stubs"
	"github.com/croft-edge/croft/pkg/supervise"
)

// Host holds what a process provides to its modules.
type Host struct {
	Config  config.Config
	Version node.Version
	Bus     bus.Bus
	// Dialer is the process's own dialer for addresses that tenants name.
	Dialer *dial.Dialer
	// Tap streams the lines of Log; nil where nothing listens to them.
	Tap *debug.Tap
	Log zerolog.Logger
}

// Quiet is the host without streaming of its log lines: components that carry log lines log here, or a
// failing stream would feed itself.
func (h Host) Quiet() Host {
	if h.Tap != nil {
		h.Log = h.Log.Output(h.Tap.Past())
	}
	return h
}

// NewDialer makes a dialer for addresses that tenants name. It starts nothing, and connects to nothing
// by itself.
func (h Host) NewDialer() (*dial.Dialer, error) {
	// The dialer itself reads the ranges of this machine's interfaces.
	own := func() []netip.Prefix { return []netip.Prefix{h.Config.NetworkUplinks} }
	return dial.New(dial.Config{Own: own, Allow: h.Config.AllowPrivate, Log: h.Quiet().Log})
}

// Instance is an open module.
type Instance struct {
	Objects []Object
	// Features are what the module uses of the kernel. They are tried beside the module while it runs.
	Features []kernel.Feature
	// Workers is the maximum of concurrent calls; 0 is the bus's default.
	Workers int
	// Run works until ctx is done; it is restarted when it ends earlier. It goes on until the calls in
	// progress are over. It may be nil.
	Run func(ctx context.Context) error
	// Close releases the resources of Open. It may be nil.
	Close func(ctx context.Context) error
}

// Object registers one object of a module.
type Object func(s *bus.Server) error

// Serves is the object of that name and version; a contract's table makes its methods: stubs.StorageMethods(implementation).
func Serves(name, version string, methods bus.Methods) Object {
	return func(s *bus.Server) error { return bus.RegisterMethods(s, bus.Object(name, version), methods) }
}

// How long a module may take to finish the calls in progress, and then to close.
const (
	StopTimeout  = 35 * time.Second
	closeTimeout = 5 * time.Second
)

// load opens the module. run serves it, beside its phase, on the host's bus until its context is done, and closes it; it must be called.
func (d Descriptor) load(ctx context.Context, h Host, phase Object) (run func(ctx context.Context) error, err error) {
	if d.Support {
		h = h.Quiet()
	}
	m, err := d.Open(ctx, h)
	if err != nil {
		return nil, err
	}
	server, err := bus.NewServer(h.Bus, d.Bus, bus.Options{Log: h.Log, Workers: m.Workers})
	for _, register := range m.Objects {
		if err == nil {
			err = register(server)
		}
	}
	if err == nil {
		err = d.registered(server)
	}
	if err == nil && len(m.Objects) > 0 { // else it serves nothing, and ends
		err = phase(server)
	}
	watch := kernel.NewWatch(d.Name, m.Features, h.Log)
	if err == nil && d.Kernel {
		err = servesKernel(watch)(server)
	}
	if err != nil {
		_ = m.close(ctx)
		return nil, err
	}
	return func(ctx context.Context) error {
		running, stop := context.WithCancel(context.WithoutCancel(ctx))
		var run sync.WaitGroup
		if d.Kernel {
			run.Go(func() { _ = supervise.Keep(running, h.Log, "kernel features", supervise.DefaultBackoff(), watch.Run) }) // Keep logs what ends it
		}
		if m.Run != nil {
			run.Go(func() { _ = supervise.Keep(running, h.Log, d.Name, supervise.DefaultBackoff(), m.Run) }) // Keep logs what ends it
		}
		err := server.Run(ctx)
		stop()
		run.Wait()
		if closeErr := m.close(ctx); err == nil {
			err = closeErr
		}
		return err
	}, nil
}

// servesKernel is the object that tells what a module lacks of the kernel.
func servesKernel(of node.Kernel) Object {
	return Serves(node.KernelObject, node.KernelVersion, stubs.KernelMethods(of))
}

// registered holds that the objects of an open module are those of its descriptor.
func (d Descriptor) registered(server *bus.Server) error {
	if d.Objects == nil {
		return nil
	}
	byName := func(a, b zbus.ObjectID) int { return strings.Compare(a.String(), b.String()) }
	if want, have := slices.SortedFunc(slices.Values(d.Objects), byName), server.Status().Objects; !slices.Equal(want, have) {
		return errors.Errorf("cannot open module %s: it serves the objects %v, its descriptor has %v", d.Name, have, want)
	}
	return nil
}

func (m *Instance) close(ctx context.Context) error {
	if m.Close == nil {
		return nil
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	return m.Close(closing)
}

// MakeFolder makes one of the node's folders. Its parents may be traversed by everybody: run-dir may
// have the same parents, and containers reach into that.
func MakeFolder(dir string, mode os.FileMode) error {
	err := os.MkdirAll(filepath.Dir(dir), 0o755)
	if err == nil {
		err = os.MkdirAll(dir, mode)
	}
	return errors.Wrap(err, "cannot make the node's folders")
}
