package monitor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/shirou/gopsutil/v4/cpu"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance"
	"github.com/croft-edge/croft/pkg/node/stubs"
)

// systemOnBus is m's streams through their stub.
func systemOnBus(t *testing.T, m *Module) *stubs.SystemMonitorStub {
	t.Helper()
	return stubs.NewSystemMonitorStub(conformance.OnBus(t, node.MonitorModule, bus.Object(node.SystemObject, node.SystemVersion), m.System()))
}

// hostOnBus is m's machine through its stub.
func hostOnBus(t *testing.T, m *Module) *stubs.HostMonitorStub {
	t.Helper()
	return stubs.NewHostMonitorStub(conformance.OnBus(t, node.MonitorModule, bus.Object(node.HostObject, node.HostVersion), m.Host()))
}

func made(t *testing.T, cfg Config) *Module {
	t.Helper()
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMonitorConforms(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	conformance.MonitorSuite(t, func(t *testing.T) conformance.MonitorSubject {
		m := made(t, Config{Interval: 50 * time.Millisecond})
		return conformance.MonitorSubject{
			System: systemOnBus(t, m), Host: hostOnBus(t, m),
			Restart: func(t *testing.T) conformance.HostClient { return hostOnBus(t, made(t, Config{})) },
		}
	})
}

func TestConfig(t *testing.T) {
	if _, err := New(Config{Interval: -1}); !errors.Is(err, node.Invalid) {
		t.Errorf("a negative interval gives %v", err)
	}
	m := made(t, Config{})
	if m.cfg.Interval != 2*time.Second {
		t.Errorf("the interval is %s, want 2s", m.cfg.Interval)
	}
}

func TestOwnAddresses(t *testing.T) {
	parse := func(texts ...string) (list []netip.Addr) {
		for _, text := range texts {
			list = append(list, netip.MustParseAddr(text))
		}
		return list
	}
	nics := []nic{
		{name: "lo", up: true, addresses: parse("127.0.0.1", "::1")},
		{name: "eth1", up: true, addresses: parse("192.168.7.2", "fe80::1", "2001:db8::7")},
		{name: "eth0", up: true, addresses: parse("10.0.0.5", "169.254.3.3", "192.168.7.2")},
		{name: "eth2", up: false, addresses: parse("10.9.9.9")},
		{name: "croft0", up: true, addresses: parse("10.1.1.1")},
		{name: "cr-abc", up: true, addresses: parse("10.1.1.2")},
		{name: "crate0", up: true, addresses: parse("10.1.1.3", "0.0.0.0", "224.0.0.1", "::")},
	}
	got := ownAddresses(nics, DefaultOwnPrefixes())
	want := []string{"10.0.0.5", "10.1.1.3", "192.168.7.2", "2001:db8::7"}
	if !slices.Equal(got, want) {
		t.Errorf("the addresses are %q, want %q", got, want)
	}
	if got := ownAddresses(nil, nil); got == nil || len(got) != 0 {
		t.Errorf("of nothing the addresses are %#v", got)
	}
}

// inNamespace calls f in a network namespace of its own, which has what those arguments of ip make.
func inNamespace(t *testing.T, lines []string, f func() error) {
	t.Helper()
	done := make(chan error)
	go func() {
		// Never unlocked: the thread, and its namespace, end with the goroutine.
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWNET)
		for _, line := range lines {
			if err != nil {
				break
			}
			var complaint bytes.Buffer
			cmd := exec.CommandContext(t.Context(), "ip", strings.Fields(line)...)
			cmd.Stderr = &complaint
			if err = cmd.Run(); err != nil {
				err = fmt.Errorf("ip %s: %w: %s", line, err, &complaint)
			}
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestRealInterfaces reads real interfaces in a network namespace of its own.
func TestRealInterfaces(t *testing.T) {
	var info node.HostInfo
	inNamespace(t, []string{
		"link set lo up",
		"link add name croft9 type bridge", "addr add 10.66.0.1/24 dev croft9", "link set croft9 up",
		"link add name lan9 type bridge", "addr add 192.0.2.7/24 dev lan9", "link set lan9 up",
		"link add name down9 type bridge", "addr add 192.0.2.8/24 dev down9",
		"addr add 2001:db8::1/64 dev croft9 nodad", "addr add 2001:db8::7/64 dev lan9 nodad",
		"addr add 192.0.2.9/24 dev lan9 label lan9:second",
	}, func() (err error) {
		info, err = made(t, Config{}).Host().Info()
		return err
	})
	if got := info.Addresses; !slices.Equal(got, []string{"192.0.2.7", "192.0.2.9", "2001:db8::7"}) {
		t.Errorf("the addresses are %q", got)
	}
}

// TestInterfacesAreTheSystems holds that each interface has its own addresses, though they are read together.
func TestInterfacesAreTheSystems(t *testing.T) {
	read, want := map[string][]string{}, map[string][]string{}
	inNamespace(t, []string{
		"link set lo up", "addr add 192.0.2.1/32 dev lo",
		"link add name lan8 type bridge", "addr add 192.0.2.8/24 dev lan8", "addr add 2001:db8::8/64 dev lan8 nodad", "link set lan8 up",
		"link add name lan9 type bridge", "addr add 192.0.2.9/24 dev lan9", "addr add 2001:db8::9/64 dev lan9 nodad",
	}, func() error {
		nics, err := readInterfaces(nil)
		if err != nil {
			return err
		}
		for _, n := range nics {
			for _, a := range n.addresses {
				read[n.name] = append(read[n.name], a.String())
			}
			slices.Sort(read[n.name])
		}
		interfaces, err := net.Interfaces()
		if err != nil {
			return err
		}
		for _, one := range interfaces {
			addresses, err := one.Addrs()
			if err != nil {
				return err
			}
			for _, a := range addresses {
				if a := netip.MustParsePrefix(a.String()).Addr(); a.IsGlobalUnicast() {
					want[one.Name] = append(want[one.Name], a.String())
				}
			}
			slices.Sort(want[one.Name])
		}
		return nil
	})
	if len(want["lo"]) != 1 || len(want["lan8"]) != 2 || len(want["lan9"]) != 2 {
		t.Errorf("the system has %v", want)
	}
	for name, addresses := range want {
		if !slices.Equal(read[name], addresses) {
			t.Errorf("%s has %v, read were %v", name, addresses, read[name])
		}
	}
}

// TestLinksOfNetworksAreNotRead holds that reading the machine's addresses costs nothing for each network, which has a link with addresses of both
// families.
func TestLinksOfNetworksAreNotRead(t *testing.T) {
	var nics []nic
	inNamespace(t, []string{
		"link add name cr-u1 type bridge", "addr add 10.66.0.1/31 dev cr-u1", "addr add fd00::1/127 dev cr-u1 nodad", "link set cr-u1 up",
		"link add name lan9 type bridge", "addr add 192.0.2.7/24 dev lan9", "addr add 2001:db8::7/64 dev lan9 nodad", "link set lan9 up",
	}, func() (err error) {
		nics, err = readInterfaces(DefaultOwnPrefixes())
		return err
	})
	if len(nics) != 1 || nics[0].name != "lan9" || !nics[0].up || len(nics[0].addresses) != 2 {
		t.Errorf("read were %+v", nics)
	}
}

func TestAddressesAreOfThisMachine(t *testing.T) {
	info, err := made(t, Config{}).Host().Info()
	if err != nil {
		t.Fatal(err)
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range info.Addresses {
		if !slices.ContainsFunc(all, func(a net.Addr) bool { return strings.HasPrefix(a.String(), address+"/") }) {
			t.Errorf("%s isn't among %v", address, all)
		}
	}
}

// Reading the installed system may run a program, and each admission waits for Info:
// it is read until it has succeeded once.
func TestTheInstalledSystemIsReadOnce(t *testing.T) {
	m := made(t, Config{})
	read := 0
	m.system.read = func() (string, error) {
		if read++; read == 1 {
			return "", errors.New("not now")
		}
		return "debian 12.9", nil
	}
	if _, err := m.Host().Info(); err == nil {
		t.Error("it didn't tell that the system can't be read")
	}
	for range 2 {
		if info, err := m.Host().Info(); err != nil || info.OS != "debian 12.9" || info.Uptime == 0 || info.BootTime == 0 || info.Hostname == "" || info.Kernel == "" {
			t.Errorf("the machine is %+v, %v", info, err)
		}
	}
	if read != 2 {
		t.Errorf("it was read %d times, want once after a failure", read)
	}
}

func TestCPUShare(t *testing.T) {
	var c cpuCounter
	steps := []struct {
		times cpu.TimesStat
		found bool
		want  float64
	}{
		{cpu.TimesStat{User: 100, Idle: 900}, false, 0},
		{cpu.TimesStat{User: 125, Idle: 975}, true, 25},
		{cpu.TimesStat{User: 125, Idle: 975}, false, 0},
		{cpu.TimesStat{User: 125, Idle: 985, Iowait: 90}, true, 0},
		{cpu.TimesStat{User: 135, Nice: 10, System: 10, Irq: 5, Softirq: 5, Steal: 5, Guest: 8, Idle: 985, Iowait: 90}, true, 100},
		{cpu.TimesStat{User: 120, Idle: 985, Iowait: 150}, true, 0},
	}
	for i, s := range steps {
		use, found := c.next(s.times)
		if found != s.found || use.Percent != s.want {
			t.Errorf("step %d: the use is %+v (%v), want %v%% (%v)", i, use, found, s.want, s.found)
		}
	}
}

// TestStream wants a reading at once and every interval, failed ones left out
// and logged, and the stream to end soon after its context.
func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		m := made(t, Config{Log: zerolog.New(&log)})
		n := 0
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		ch := stream(ctx, m, "numbers", func(context.Context) (int, bool, error) {
			n++
			if n == 2 {
				return 0, true, errors.New("no reading")
			}
			return n, n != 3, nil
		})
		for _, want := range []struct {
			n  int
			at time.Duration
		}{{1, 0}, {4, 6 * time.Second}, {5, 8 * time.Second}} {
			if got, at := <-ch, time.Since(start); got != want.n || at != want.at {
				t.Errorf("%d came after %s, want %d after %s", got, at, want.n, want.at)
			}
		}
		cancel()
		for range ch {
		}
		if !strings.Contains(log.String(), "no reading") {
			t.Errorf("the log is %q", log.String())
		}
	})
}

// TestStreamWithoutReader wants a stream without a reader to end with its context.
func TestStreamWithoutReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ch := stream(ctx, made(t, Config{}), "numbers", func(context.Context) (int, bool, error) { return 1, true, nil })
		synctest.Wait()
		cancel()
		synctest.Wait()
		if _, open := <-ch; open {
			t.Error("the stream is open after its context ended")
		}
	})
}
