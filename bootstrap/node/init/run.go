package main

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/bootstrap/node/init/console"
	"github.com/croft-edge/croft/internal/guest"
	"github.com/croft-edge/croft/internal/guest/cmdline"
	"github.com/croft-edge/croft/internal/guest/kmod"
	"github.com/croft-edge/croft/internal/guest/service"
	"github.com/croft-edge/croft/internal/nodeimage"
	"github.com/croft-edge/croft/pkg/atomicfile"
)

const (
	// modulesAt has the kernel's modules.
	modulesAt = "/lib/modules"
)

// machine is a booted node.
type machine struct {
	*journal
	*events
	given
	line    cmdline.Line
	modules *kmod.Modules
	runner  *service.Runner
	power   *power
	// node asks the running node what it is.
	node *console.Collector
	// disks are what the node runs on; nil before that is decided.
	disks atomic.Pointer[diskState]
	// version is the image's, slot that of the running one; empty where the network brought it.
	version, slot string
}

// events are what happens on a machine.
type events struct {
	// devices is told of each device that appears or goes, networks of each change of the network, upgrades when another image is to be looked for
	// at once.
	devices, networks, upgrades *changed
	// drivers is closed once the drivers of the machine's devices are loaded, kernel once the modules that workloads need are too, wasReady once
	// the node was ready.
	drivers, kernel, wasReady chan struct{}
}

func newEvents() *events {
	return &events{newChanged(), newChanged(), newChanged(), make(chan struct{}), make(chan struct{}), make(chan struct{})}
}

// run boots the node and runs it. It returns only with an error.
func run(ctx context.Context) error {
	m := &machine{
		journal: newJournal(kernelConsole()), events: newEvents(), given: given{check: newCheck()}, version: cmp.Or(release(releaseFile, "VERSION_ID"), "unknown"), slot: os.Getenv(nodeimage.SlotVariable),
	}
	m.node = console.NewCollector(stateSocket, m.logger())
	if err := m.prepare(ctx); err != nil {
		return err
	}
	m.readSettings(ctx)
	images := m.images()
	images.boundTrial(ctx)
	net := m.startNetwork(ctx)
	m.power.listen(m.upgrades.tell)
	m.keep(ctx, "power button", func(ctx context.Context) error {
		watch := func(device string) error { return guest.WatchPowerButton(device, m.power.pressed) }
		return buttons{guest.PowerButtons, watch, m.say}.run(ctx, m.devices.next, m.drivers)
	})
	m.showScreen(ctx, net, images.trial)
	programs := newStarter(m.runner, m.say)
	programs.started[workloadsNeed] = m.kernel
	if !m.recovery() {
		programs.start(ctx, early())
	}
	if err := m.openState(ctx); err != nil {
		return err
	}
	m.startClock(ctx, net)
	if m.recovery() {
		return m.waitForOperator(ctx, errors.New("its programs don't run: the machine was booted for recovery"))
	}
	if err := m.startPrograms(ctx, programs); err != nil {
		return err
	}
	m.whenReady(ctx, images)
	images.keepUpgraded(ctx)
	m.watch(ctx)
	return errors.New("nothing is left to do")
}

// recoveryParameter has the machine come up with its state and its network, a shell at its console, and none of the node's programs.
const recoveryParameter = "croft.recovery"

func (m *machine) recovery() bool { return m.line.Has(recoveryParameter) }

// startPrograms starts the node's programs that need its state, once the settings are known to be good.
func (m *machine) startPrograms(ctx context.Context, programs *starter) error {
	if err := atomicfile.WriteFile(containerdConfig, []byte(containerdPlaces().Text()), 0o600); err != nil {
		return err
	}
	if err := m.writeSettings(ctx); err != nil {
		return err
	}
	programs.start(ctx, parts())
	return nil
}

// prepare makes a machine of what stage 1 has left: the kernel's file systems, drivers, limits.
func (m *machine) prepare(ctx context.Context) (err error) {
	m.say("init runs")
	if err := mountKernel(); err != nil {
		return err
	}
	m.runner = service.NewRunner("/run", m.say)
	m.runner.PIDsIn(runAt)
	left, err := service.EndLeftovers(runAt)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		m.say("init was started again; ended what it had left: %s", strings.Join(left, ", "))
	}
	m.power = &power{journal: m.journal, runner: m.runner}
	m.wrong("control groups", shareControllers())
	if m.line, err = cmdline.Read(); err != nil {
		return err
	}
	release := guest.ReadText("/proc/sys/kernel/osrelease")
	if m.modules, err = kmod.Open(filepath.Join(modulesAt, release)); err != nil {
		return err
	}
	m.once(ctx, "drivers", func(ctx context.Context) error {
		var first sync.WaitGroup
		first.Go(func() { loadAll(m.modules, firstModules(), m.say) })
		loadDrivers(m.modules, m.say, isFirst)
		first.Wait()
		close(m.drivers)
		m.devices.tell()
		m.say("drivers are loaded")
		loadAll(m.modules, workloadModules(), m.say)
		close(m.kernel)
		loadDrivers(m.modules, m.say, isLater)
		m.startWatchdog(ctx)
		select {
		case <-ctx.Done():
		case <-m.wasReady:
		case <-after(patience):
		}
		loadDrivers(m.modules, m.say, nil)
		return nil
	})
	for _, fault := range setKernel() {
		m.say("%v", fault)
	}
	m.wrong("loopback", guest.LinkUp("lo"))
	m.keep(ctx, "hotplug", func(ctx context.Context) error { return hotplug(ctx, m.modules, m.devices.tell) })
	return nil
}

// waitForOperator shows why the node doesn't run, for as long as the machine does: starting it again wouldn't change anything.
func (m *machine) waitForOperator(ctx context.Context, why error) error {
	m.wrong("node", why)
	<-ctx.Done()
	return ctx.Err()
}

// whenReady does what waits for the node's first readiness: the settings are good, the image is kept, a test's program runs. A node is ready without
// containers, virtual machines or zdb; an image that is tried has to bring up all of them.
func (m *machine) whenReady(ctx context.Context, images *images) {
	m.once(ctx, "readiness", func(ctx context.Context) error {
		if err := waitStarted(ctx, m.runner, engine); err != nil {
			return err
		}
		if images.trial {
			if err := m.waitWhole(ctx); err != nil {
				return err
			}
		}
		close(m.wasReady)
		m.wrong("readiness", errors.Wrap(os.WriteFile(readyMark, nil, 0o600), "cannot tell process 1 that the node is ready"))
		m.say("the node is ready")
		m.wrong("last upgrade", images.keepRunning())
		m.wrong("last good settings", m.keepSettings())
		return m.runTest(ctx)
	})
}

// driversLoaded reports whether the drivers of the machine's devices are loaded.
func (e *events) driversLoaded() bool {
	select {
	case <-e.drivers:
		return true
	default:
		return false
	}
}

// releaseFile describes the running image.
const releaseFile = "/etc/os-release"

// release is a value of a file os-release; empty if it isn't there.
func release(file, name string) string {
	for line := range strings.Lines(guest.ReadText(file)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+"="); ok {
			return strings.Trim(value, `"'`)
		}
	}
	return ""
}

// imageKey is the key that images must be signed by, as stage 1 has told; nil where none is built in.
func imageKey() (ed25519.PublicKey, error) {
	text := os.Getenv(nodeimage.KeyVariable)
	if text == "" {
		return nil, nil
	}
	return nodeimage.DecodeKey([]byte(text))
}

// pause waits, or returns false when ctx is done.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-after(d):
		return true
	}
}
