package main

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"encoding/json"
	stderrors "errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/bootstrap/node/init/console"
	"github.com/croft-edge/croft/bootstrap/node/init/settings"
	"github.com/croft-edge/croft/internal/guest"
	"github.com/croft-edge/croft/internal/guest/cmdline"
	"github.com/croft-edge/croft/internal/guest/kmod"
	"github.com/croft-edge/croft/internal/guest/service"
	"github.com/croft-edge/croft/internal/nodeimage"
	"github.com/croft-edge/croft/pkg/atomicfile"
)

const (
	// imageKeyFile has the key of images, in the root file system of the running one.
	imageKeyFile = "/usr/share/croft/image.pub"
	// lastGoodFile has the settings with which the node was ready at an earlier boot, in its state.
	lastGoodFile = "/var/lib/init/settings.json"
	// modulesAt has the kernel's modules.
	modulesAt = "/lib/modules"
)

// machine is a booted node.
type machine struct {
	*journal
	*events
	line     cmdline.Line
	settings settings.Settings
	// hasFile tells that the settings have a file of the operator's.
	hasFile bool
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
		journal: newJournal(kernelConsole()), events: newEvents(), version: cmp.Or(release(releaseFile, "VERSION_ID"), "unknown"), slot: os.Getenv(nodeimage.SlotVariable),
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
	if err := m.openState(ctx); err != nil {
		return err
	}
	m.startClock(ctx, net)
	if m.recovery() {
		return m.waitForOperator(ctx, errors.New("its programs don't run: the machine was booted for recovery"))
	}
	if err := m.startPrograms(ctx); err != nil {
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

// startPrograms starts the node's programs. What needs no settings starts while they are checked.
func (m *machine) startPrograms(ctx context.Context) error {
	if err := atomicfile.WriteFile(containerdConfig, []byte(containerdPlaces().Text()), 0o600); err != nil {
		return err
	}
	started := newStarter(m.runner, m.say)
	started.start(ctx, carriers())
	if err := m.writeSettings(ctx); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-m.kernel:
	}
	started.start(ctx, parts())
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
		loadFirst(m.modules, m.say)
		close(m.drivers)
		m.devices.tell()
		m.say("drivers are loaded")
		m.startWatchdog(ctx)
		loadAll(m.modules, workloadModules(), m.say)
		close(m.kernel)
		select {
		case <-ctx.Done():
		case <-m.wasReady:
		case <-after(patience):
		}
		loadDrivers(m.modules, m.say)
		return nil
	})
	for _, fault := range setKernel() {
		m.say("%v", fault)
	}
	m.wrong("loopback", guest.LinkUp("lo"))
	m.keep(ctx, "hotplug", func(ctx context.Context) error { return hotplug(ctx, m.modules, m.devices.tell) })
	return nil
}

// readSettings joins what the operator says. Faults are shown; writeSettings decides what becomes of them. A file that can't be read is one: it
// may have had the setting that keeps strangers away.
func (m *machine) readSettings(ctx context.Context) {
	file, err := m.operatorsFile(ctx)
	var faults []error
	m.settings, faults = settings.Read(m.line, file)
	m.hasFile = file != nil
	m.wrong(aboutSettings, stderrors.Join(append(faults, err)...))
}

// operatorsFile is the operator's file, nil if there is none. Its disk may come late; a machine whose command line has settings doesn't wait
// for one.
func (m *machine) operatorsFile(ctx context.Context) ([]byte, error) {
	var until time.Time
	for {
		next := m.devices.next()
		file, found, err := readConfigPartition()
		if found || err != nil || ctx.Err() != nil {
			return file, err
		}
		if m.driversLoaded() {
			if until.IsZero() {
				until = time.Now().Add(lateConfig)
			}
			if len(m.line.Below(settings.Prefix)) > 0 || time.Now().After(until) {
				return nil, nil
			}
		}
		select {
		case <-ctx.Done():
		case <-next:
		case <-after(lookPause):
		}
	}
}

// lateConfig is how long the disk with the operator's file may take to appear after the drivers are loaded.
const lateConfig = 5 * time.Second

// writeSettings writes croftd's settings and has croftd check them. Wrong settings are never run with: a node that has been ready before
// keeps the operator's last good ones, and another one waits for its operator. What the image sets is always of this boot.
func (m *machine) writeSettings(ctx context.Context) error {
	image := imageSettings()
	maps.Copy(image, m.disks.Load().settings())
	raw, err := m.settings.File(image)
	if err != nil {
		return err
	}
	if err := atomicfile.WriteFile(settingsFile, raw, 0o600); err != nil {
		return err
	}
	last, err := readLastGood(lastGoodFile)
	if err != nil {
		m.wrong("last good settings", err)
	}
	if err := last.lost(m.hasFile || m.settings.Node.NoFile); err != nil && !m.has(aboutSettings) {
		m.wrong(aboutSettings, err)
	}
	if !m.has(aboutSettings) {
		if last != nil && last.Image == m.version && maps.Equal(last.Croftd, m.settings.Croftd) {
			return nil // this image was ready with them
		}
		m.wrong(aboutSettings, checked(ctx))
	}
	if !m.has(aboutSettings) {
		return nil
	}
	if last == nil {
		return m.waitForOperator(ctx, errors.New("the settings are wrong, and there are none of an earlier boot"))
	}
	m.say("the node runs with the settings of its last good boot")
	if raw, err = (settings.Settings{Croftd: last.Croftd}).File(image); err != nil {
		return err
	}
	return atomicfile.WriteFile(settingsFile, raw, 0o600)
}

// lastGood are the operator's settings with which the node was ready, and the image.
type lastGood struct {
	Image string `json:"image"`
	// File tells that there was a file of the operator's.
	File   bool              `json:"file"`
	Croftd map[string]string `json:"croftd"`
}

// lost is an error where the operator's file was there and isn't any more: what it forbade would be allowed. enough tells that it is there, or isn't
// wanted.
func (l *lastGood) lost(enough bool) error {
	if l == nil || !l.File || enough {
		return nil
	}
	return errors.New("the file croft.yaml isn't there, with which the node was ready the last time; croft.config=none runs without it")
}

// readLastGood reads the last good settings; nil if there are none.
func readLastGood(file string) (*lastGood, error) {
	raw, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, errors.Wrap(err, "cannot read the settings of the last good boot")
	}
	var out lastGood
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, errors.Wrap(err, "cannot read the settings of the last good boot")
	}
	return &out, nil
}

// keepSettings keeps the settings of this boot as the last good ones, unless they are wrong.
func (m *machine) keepSettings() error {
	if m.has(aboutSettings) {
		return nil
	}
	raw, err := json.Marshal(lastGood{Image: m.version, File: m.hasFile, Croftd: m.settings.Croftd})
	if err != nil {
		return err
	}
	return atomicfile.WriteFile(lastGoodFile, append(raw, '\n'), 0o600)
}

// checked has croftd check its settings.
func checked(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, croftd, "config", "check", settingsFile).CombinedOutput()
	if err == nil {
		return nil
	}
	if text := strings.TrimSpace(string(out)); text != "" {
		return errors.New(text)
	}
	return errors.Wrap(err, "cannot check croftd's settings")
}

// waitForOperator shows why the node doesn't run, for as long as the machine does: starting it again wouldn't change anything.
func (m *machine) waitForOperator(ctx context.Context, why error) error {
	m.wrong("node", why)
	<-ctx.Done()
	return ctx.Err()
}

// whenReady does what waits for the node's first readiness: the settings are good, the image is kept, a test's program runs.
func (m *machine) whenReady(ctx context.Context, images *images) {
	m.once(ctx, "readiness", func(ctx context.Context) error {
		if err := waitStarted(ctx, m.runner, engine); err != nil {
			return err
		}
		close(m.wasReady)
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

// imageKey is the key that images must be signed by; nil where none is built in.
func imageKey() (ed25519.PublicKey, error) {
	text, err := os.ReadFile(imageKeyFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, errors.Wrap(err, "cannot read the key of images")
	}
	return nodeimage.DecodeKey(text)
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
