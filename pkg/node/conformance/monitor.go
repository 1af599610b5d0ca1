package conformance

import (
	"context"
	"net/netip"
	"runtime"
	"slices"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance/expect"
)

// SystemClient is the interface of the stub of node.SystemMonitor.
type SystemClient interface {
	CPU(ctx context.Context) (<-chan node.CPUUse, error)
	Memory(ctx context.Context) (<-chan node.MemoryUse, error)
	Disks(ctx context.Context) (<-chan node.DisksUse, error)
	Nics(ctx context.Context) (<-chan node.NicsUse, error)
}

// HostClient is the interface of the stub of node.HostMonitor.
type HostClient interface {
	Info(ctx context.Context) (node.HostInfo, error)
}

// MonitorSubject is a monitor of this machine, which reads more often than
// once in 5 s.
type MonitorSubject struct {
	System SystemClient
	Host   HostClient
	// Restart ends the module, starts it anew, and returns the new client.
	Restart func(t *testing.T) HostClient
}

// MonitorSuite tests an implementation of node.SystemMonitor with its
// node.HostMonitor. It reads this machine, so there is nothing to remove; "twice"
// and "after a restart" test that the machine stays the same.
func MonitorSuite(t *testing.T, open func(t *testing.T) MonitorSubject) {
	parts := []struct {
		name string
		run  func(t *testing.T, s MonitorSubject)
	}{
		{"host", monitorHost},
		{"twice and after a restart", monitorTwice},
		{"cpu", monitorCPU},
		{"memory", monitorMemory},
		{"disks", monitorDisks},
		{"nics", monitorNics},
		{"two readers", monitorTwoReaders},
	}
	for _, part := range parts {
		t.Run(part.name, func(t *testing.T) { part.run(t, open(t)) })
	}
}

func monitorHost(t *testing.T, s MonitorSubject) {
	info, err := s.Host.Info(t.Context())
	expect.NoError(t, err)
	if info.Hostname == "" || info.Kernel == "" || info.OS == "" || info.Memory == 0 || info.Uptime == 0 || info.BootTime == 0 {
		t.Errorf("the machine is %+v", info)
	}
	if info.Cores < uint64(runtime.NumCPU()) {
		t.Errorf("the machine has %d cores, this test alone may use %d", info.Cores, runtime.NumCPU())
	}
	for _, text := range info.Addresses {
		a, err := netip.ParseAddr(text)
		if err != nil || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified() {
			t.Errorf("%q is told as an address of the machine (%v)", text, err)
		}
	}
}

func monitorTwice(t *testing.T, s MonitorSubject) {
	first, err := s.Host.Info(t.Context())
	expect.NoError(t, err)
	for _, client := range []HostClient{s.Host, s.Restart(t)} {
		again, err := client.Info(t.Context())
		expect.NoError(t, err)
		if again.Hostname != first.Hostname || again.Cores != first.Cores || again.Memory != first.Memory || again.Uptime < first.Uptime {
			t.Errorf("the machine is %+v, before it was %+v", again, first)
		}
	}
}

// read takes two values of a stream, cancels it, and expects its end.
func read[T any](t *testing.T, open func(context.Context) (<-chan T, error)) (first, second T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ch, err := open(ctx)
	expect.NoError(t, err)
	first, second = expect.Receive(t, ch), expect.Receive(t, ch)
	cancel()
	expect.Closed(t, ch)
	return first, second
}

func monitorCPU(t *testing.T, s MonitorSubject) {
	a, b := read(t, s.System.CPU)
	for _, use := range []node.CPUUse{a, b} {
		if use.Percent < 0 || use.Percent > 100 || use.Cores == 0 {
			t.Errorf("the use is %+v", use)
		}
	}
}

func monitorMemory(t *testing.T, s MonitorSubject) {
	a, b := read(t, s.System.Memory)
	if a.Total == 0 || a.Total != b.Total || a.Available > a.Total || a.Used > a.Total {
		t.Errorf("the use is %+v, then %+v", a, b)
	}
}

func monitorDisks(t *testing.T, s MonitorSubject) {
	a, b := read(t, s.System.Disks)
	if len(a) == 0 || !slices.IsSortedFunc(a, func(x, y node.DiskUse) int { return compare(x.Name, y.Name) }) {
		t.Fatalf("the use is %+v", a)
	}
	for _, before := range a {
		i := slices.IndexFunc(b, func(d node.DiskUse) bool { return d.Name == before.Name })
		if i >= 0 && b[i].WriteBytes < before.WriteBytes {
			t.Errorf("%s has written %d bytes, before it was %d", before.Name, b[i].WriteBytes, before.WriteBytes)
		}
	}
}

func monitorNics(t *testing.T, s MonitorSubject) {
	a, _ := read(t, s.System.Nics)
	if !slices.ContainsFunc(a, func(n node.NicUse) bool { return n.Name == "lo" }) {
		t.Errorf("the loopback interface isn't in %+v", a)
	}
}

// monitorTwoReaders tests that one reader's end doesn't end the other.
func monitorTwoReaders(t *testing.T, s MonitorSubject) {
	stay, err := s.System.CPU(t.Context())
	expect.NoError(t, err)
	read(t, s.System.CPU)
	expect.Receive(t, stay)
	expect.Receive(t, stay)
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
