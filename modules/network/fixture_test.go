package network_test

import (
	"context"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/network"
	"github.com/croft-edge/croft/modules/network/carrier"
	"github.com/croft-edge/croft/pkg/dial"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance"
	"github.com/croft-edge/croft/pkg/node/stubs"
)

// fixture is a module on a folder of its own, in the tests' namespace.
type fixture struct {
	t   *testing.T
	cfg network.Config
	mod *network.Module

	networks *stubs.NetworksStub
	taps     *stubs.TapsStub
}

func newFixture(t *testing.T, change ...func(*network.Config)) *fixture {
	t.Helper()
	run, err := os.MkdirTemp("/var/tmp", "croft-net-")
	if err != nil {
		t.Fatal(err)
	}
	log := zerolog.New(zerolog.NewTestWriter(t))
	dialer, err := dial.New(dial.Config{Own: func() []netip.Prefix { return nil }, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, cfg: network.Config{
		Dir: filepath.Join(run, "network"), Uplinks: netip.MustParsePrefix("169.254.64.0/18"), Endpoints: dialer,
		Refuse: dial.NonPublic(), Own: func() ([]netip.Prefix, error) { return nil, nil }, Log: log,
		Carrier: carrier.Config{RunDir: run, Command: []string{"/usr/bin/env", roleVariable + "=" + carrierRole, dirVariable + "=" + run, self(t)}, Within: patience, Log: log},
	}}
	for _, c := range change {
		c(&f.cfg)
	}
	t.Cleanup(func() { f.close(run) })
	f.open()
	return f
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// open starts the module and serves it on a bus.
func (f *fixture) open() {
	f.t.Helper()
	m, err := network.Open(f.cfg)
	if err != nil {
		f.t.Fatal(err)
	}
	f.mod = m
	client := conformance.OnBus(f.t, node.NetworkModule, busObject(node.NetworkObject, node.NetworkVersion), m.Networks())
	f.networks = stubs.NewNetworksStub(client)
	client = conformance.OnBus(f.t, node.NetworkModule, busObject(node.TapObject, node.TapVersion), m.Taps())
	f.taps = stubs.NewTapsStub(client)
}

// restart ends the module and opens it anew: it knows the state on disk and in
// the kernel, and no key.
func (f *fixture) restart() {
	f.t.Helper()
	if err := f.mod.Close(); err != nil {
		f.t.Fatal(err)
	}
	f.open()
}

func (f *fixture) close(run string) {
	if f.mod != nil {
		if err := f.mod.Close(); err != nil {
			f.t.Error(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := network.TakeDown(ctx, f.cfg); err != nil {
		f.t.Error(err)
	}
	if raw, err := os.ReadFile(filepath.Join(run, "wg", "log")); err == nil && f.t.Failed() {
		f.t.Logf("the carrier's log:\n%s", raw)
	}
	if err := os.RemoveAll(run); err != nil {
		f.t.Error(err)
	}
}

// process starts a process with a network namespace of its own.
func process(t *testing.T) uint64 {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return uint64(cmd.Process.Pid)
}

// triedPort reports whether a UDP port is free. No child that another test forks meanwhile has it until its exec.
func triedPort(n int) bool {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	conn, err := net.ListenPacket("udp", ":"+strconv.Itoa(n))
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// ports are those that tests of this process have got.
var ports sync.Map

// port is a UDP port that nothing uses, no other test of this process gets, and that the
// kernel never picks as a free one: other tests do so beside this one.
func port(t *testing.T) uint16 {
	t.Helper()
	const first, last = 20000, 32767
	for range 1000 {
		n := first + rand.N(last-first)
		// First of all: trying it would be in the way of the one that has it.
		if _, taken := ports.LoadOrStore(n, true); taken {
			continue
		}
		// The name keeps it from other runs' tests, until this process ends.
		claim, err := net.Listen("unix", "@croft-test-port-"+strconv.Itoa(n))
		if err != nil {
			continue
		}
		ports.Store(n, claim)
		if triedPort(n) {
			return uint16(n)
		}
	}
	t.Fatal("no UDP port is free")
	return 0
}
