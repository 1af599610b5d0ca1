package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/bootstrap/kubernetes/init/components"
	"github.com/croft-edge/croft/internal/guest"
	"github.com/croft-edge/croft/internal/guest/service"
	"github.com/croft-edge/croft/pkg/backoff"
	"github.com/croft-edge/croft/pkg/clusterboot"
	"github.com/croft-edge/croft/pkg/fileid"
)

// machine is the running machine.
type machine struct {
	runner *service.Runner
	status *status
	// name is its hostname, device its interface.
	name, device string
	data         clusterboot.Data
	// image are the values of the image's image.env.
	image map[string]string
	// imported is set when the image's container images are there.
	imported atomic.Bool
}

// run boots the machine. One that can't be booted stays as it is for a while, so that its owner can look at it by the console, and mend its disk.
func run() {
	m := &machine{status: &status{}}
	err := m.boot(context.Background())
	say("cannot boot: %v; the machine starts again in %s", err, bootAgain)
	m.status.set("cannot boot: %v", err)
	for again := true; again; again = beingMended() {
		<-time.After(bootAgain)
	}
	if err := guest.Stop(unix.LINUX_REBOOT_CMD_RESTART); err != nil {
		say("cannot start again: %v", err)
	}
	select {}
}

// bootAgain is how long a machine that can't boot waits for its owner, who may look at it by its console, before it tries again.
const bootAgain = 15 * time.Minute

// boot boots the machine and runs it. It returns only with an error.
func (m *machine) boot(ctx context.Context) error {
	m.status.set("booting")
	if err := mountAll(); err != nil {
		return err
	}
	loadModules()
	m.runner = service.NewRunner("/run", say)
	watchPower(m.runner)
	// Also a machine whose data disk is damaged has a console.
	if err := startConsole(m.runner); err != nil {
		say("cannot open the console: %v", err)
	}
	if err := mountData(); err != nil {
		return err
	}
	m.runner.LogTo(logsAt)
	setKernel()
	go keepClock()
	config, data, err := readBootData()
	if err != nil {
		return err
	}
	m.name, m.data = config.Hostname, data
	if m.device, err = configureNetwork(config); err != nil {
		return err
	}
	say("the machine is %s with address %s, %.1f s after its kernel", m.name, data.Croft.Address, guest.UptimeSeconds())
	hostKey, err := startSSH(m.runner, m.name, data)
	if err != nil {
		return err
	}
	showHostKey(hostKey)
	go m.repeat(hostKey)
	if m.image, err = readEnv("/usr/share/croft/image.env"); err != nil {
		return err
	}
	if err := m.startContainerd(); err != nil {
		return err
	}
	if data.Croft.Control() {
		return m.control(ctx)
	}
	return m.worker(ctx)
}

// repeat shows the machine's state and its host key again.
func (m *machine) repeat(hostKey string) {
	for {
		<-time.After(repeatEvery)
		showHostKey(hostKey)
		m.status.repeat()
	}
}

// readEnv reads lines NAME=VALUE.
func readEnv(path string) (map[string]string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the image's versions: %w", err)
	}
	out := map[string]string{}
	for line := range strings.Lines(string(content)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			out[name] = value
		}
	}
	return out, nil
}

// startContainerd starts containerd, and has the image's container images imported as soon as it answers.
func (m *machine) startContainerd() error {
	config := configAt + "/containerd.toml"
	if err := os.WriteFile(config, []byte(components.Containerd(m.image["PAUSE_IMAGE"])), 0o600); err != nil {
		return err
	}
	for _, folder := range []string{components.NetworkConfigs, "/etc/containerd/certs.d"} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	if _, err := m.runner.Start(service.Spec{Name: "containerd", Command: []string{"/usr/bin/containerd", "--config", config}}); err != nil {
		return err
	}
	go m.importImages()
	return nil
}

// importedAt has the sums of the container images that are imported. It is written after they are on the disk.
const importedAt = stateAt + "/imported.json"

// importImages imports the image's container images, unless the same ones were imported at an earlier boot.
func (m *machine) importImages() {
	names, err := filepath.Glob("/usr/share/croft/images/*.tar")
	if err != nil {
		say("cannot find the image's container images: %v", err)
		return
	}
	for containerdAnswers(context.Background()) != nil {
		<-time.After(100 * time.Millisecond)
	}
	sums := map[string]string{}
	for _, name := range names {
		sum, err := fileid.Sum(name)
		if err != nil {
			say("cannot read %s: %v", name, err)
		}
		sums[filepath.Base(name)] = sum
	}
	var have map[string]string
	if raw, err := os.ReadFile(importedAt); err == nil && json.Unmarshal(raw, &have) == nil && maps.Equal(have, sums) {
		m.imported.Store(true)
		return
	}
	var importing sync.WaitGroup
	for _, name := range names {
		importing.Go(func() { importImage(name) })
	}
	importing.Wait()
	m.imported.Store(true)
	unix.Sync()
	if err := writeJSON(importedAt, sums); err != nil {
		say("the container images are imported again at the next boot: %v", err)
	}
	say("container images are imported, %.1f s after the kernel's start", guest.UptimeSeconds())
}

// importImage imports a container image, and tries again while it can't. The kubelet's collector leaves it alone.
func importImage(name string) {
	pause := backoff.Backoff{Base: time.Second, Max: time.Minute}
	for failures := 1; ; failures++ {
		err := command("/usr/bin/ctr", "-n", "k8s.io", "images", "import", "--local", "--sync-fs", "--label", "io.cri-containerd.pinned=pinned", name)
		if err == nil {
			return
		}
		say("cannot import %s: %v", filepath.Base(name), err)
		<-time.After(pause.Delay(failures))
	}
}

// containerdAnswers reports whether containerd listens.
func containerdAnswers(ctx context.Context) error {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", components.ContainerdSocket)
	if err == nil {
		conn.Close()
	}
	return err
}

// writeJSON writes a configuration.
func writeJSON(path string, document any) error {
	raw, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		return err
	}
	return replaceFile(path, append(raw, '\n'), 0o600)
}
