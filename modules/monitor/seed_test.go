package monitor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/disk"
	"github.com/shirou/gopsutil/v4/mem"
	psnet "github.com/shirou/gopsutil/v4/net"
	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/bus/broker"
	"github.com/croft-edge/croft/pkg/node"
)

// These are the types that the seed's clients declare: embedded structs are flat on the
// wire, under Go's names.
type (
	oldMemory struct {
		Total, Available, Used                                                    uint64
		UsedPercent                                                               float64
		Free, Active, Inactive, Wired, Laundry, Buffers, Cached, Writeback, Dirty uint64
		WritebackTmp, Shared, Slab, SReclaimable, SUnreclaim, PageTables          uint64
		SwapCached, CommitLimit, CommittedAS, HighTotal, HighFree                 uint64
		LowTotal, LowFree, SwapTotal, SwapFree, Mapped                            uint64
		VMallocTotal, VMallocUsed, VMallocChunk                                   uint64
		HugePagesTotal, HugePagesFree, HugePageSize                               uint64
	}
	OldTimes struct {
		CPU                                                                     string
		User, System, Idle, Nice, Iowait, Irq, Softirq, Steal, Guest, GuestNice float64
	}
	oldCPU struct {
		OldTimes
		Percent float64
		Time    time.Time
	}
	OldCounters struct {
		ReadCount, MergedReadCount, WriteCount, MergedWriteCount, ReadBytes, WriteBytes uint64
		ReadTime, WriteTime, IopsInProgress, IoTime, WeightedIO                         uint64
		Name, SerialNumber, Label                                                       string
	}
	oldDisk struct {
		OldCounters
		Time time.Time
	}
	OldTraffic struct {
		Name                                            string
		BytesSent, BytesRecv, PacketsSent, PacketsRecv  uint64
		Errin, Errout, Dropin, Dropout, Fifoin, Fifoout uint64
	}
	oldNic struct {
		OldTraffic
		RateOut, RateIn uint64
	}
)

// oldClient is a plain zbus client of a module, connected to a node's broker.
func oldClient(t *testing.T) zbus.Client {
	t.Helper()
	m := made(t, Config{Interval: 50 * time.Millisecond})
	b := bus.NewInProcess()
	server, err := bus.NewServer(b, node.MonitorModule, bus.Options{})
	if err == nil {
		err = bus.Register(server, bus.Object(node.SystemObject, node.SeedSystemVersion), m.SeedSystem())
	}
	if err == nil {
		err = bus.Register(server, bus.Object(node.HostObject, node.SeedHostVersion), m.SeedHost())
	}
	if err != nil {
		t.Fatal(err)
	}
	url := "unix://" + filepath.Join(t.TempDir(), "bus.sock")
	door, err := broker.Listen(b, url, bus.Options{}.Log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- server.Run(ctx) }()
	go func() { done <- door.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		for range cap(done) {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		_ = b.Close()
	})
	client, err := zbus.NewRedisClient(url)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// old is the next event of a stream, decoded as the seed's stubs do (value), and
// undecoded, with the member names that were sent (raw).
func old[T any](t *testing.T, client zbus.Client, object, stream string) (value T, raw any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	events, err := client.Stream(ctx, "monitor", zbus.ObjectIDFromString(object+"@0.0.1"), stream)
	if err != nil {
		t.Fatal(err)
	}
	event, open := <-events
	if !open {
		t.Fatalf("%s sent nothing", stream)
	}
	for _, into := range []any{&value, &raw} {
		if err := event.Unmarshal(into); err != nil {
			t.Fatalf("%s: %v", stream, err)
		}
	}
	return value, raw
}

// sameNames wants the received member names to be those of struct T, embedded ones included.
func sameNames[T any](t *testing.T, came any) {
	t.Helper()
	var want []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		if !f.Anonymous {
			want = append(want, f.Name)
		}
	}
	var got []string
	for _, key := range reflect.ValueOf(came).MapKeys() {
		got = append(got, fmt.Sprint(key.Interface()))
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the members are %q, want %q", got, want)
	}
}

func TestClientsOfTheSeedsTime(t *testing.T) {
	client := oldClient(t)
	t.Run("memory", func(t *testing.T) {
		got, raw := old[oldMemory](t, client, "system", "Memory")
		sameNames[oldMemory](t, raw)
		now, err := mem.VirtualMemory()
		if err != nil || got.Total != now.Total || got.CommitLimit == 0 || got.VMallocTotal != now.VmallocTotal || got.Free == 0 || got.UsedPercent == 0 {
			t.Errorf("it got %+v (%v)", got, err)
		}
	})
	t.Run("cpu", func(t *testing.T) {
		got, raw := old[[]oldCPU](t, client, "system", "CPU")
		times, err := cpu.Times(true)
		if err != nil || len(got) != len(times) {
			t.Fatalf("it got %+v of %d processors (%v)", got, len(times), err)
		}
		sameNames[oldCPU](t, raw.([]any)[0])
		for i, c := range got {
			if c.CPU != times[i].CPU || c.User <= 0 || c.User > times[i].User || c.Percent < 0 || c.Percent > 100 || time.Since(c.Time) > time.Minute {
				t.Errorf("it got %+v, now it is %+v", c, times[i])
			}
		}
	})
	t.Run("disks", func(t *testing.T) {
		got, raw := old[map[string]oldDisk](t, client, "system", "Disks")
		counts, err := disk.IOCounters()
		if err != nil || len(got) == 0 {
			t.Fatalf("it got %+v (%v)", got, err)
		}
		for name, d := range got {
			sameNames[oldDisk](t, reflect.ValueOf(raw).MapIndex(reflect.ValueOf(name)).Interface())
			if now, there := counts[name]; there && (d.Name != name || d.ReadCount > now.ReadCount || d.WriteBytes > now.WriteBytes || d.Time.IsZero()) {
				t.Errorf("it got %+v, now it is %+v", d, now)
			}
		}
	})
	t.Run("nics", func(t *testing.T) {
		got, raw := old[[]oldNic](t, client, "system", "Nics")
		sameNames[oldNic](t, raw.([]any)[0])
		if !slices.ContainsFunc(got, func(n oldNic) bool { return n.Name == "lo" }) {
			t.Errorf("it got %+v", got)
		}
	})
	t.Run("uptime", func(t *testing.T) {
		got, _ := old[time.Duration](t, client, "host", "Uptime")
		info, err := made(t, Config{}).Host().Info()
		if up := time.Duration(info.Uptime) * time.Second; err != nil || got < up-time.Minute || got > up+time.Minute {
			t.Errorf("it got %s, it is %s (%v)", got, up, err)
		}
	})
}

func TestSharesOfEachProcessor(t *testing.T) {
	shares, now := cpuShares{}, time.Unix(100, 0)
	one := func(user, iowait, idle float64) []cpu.TimesStat {
		return []cpu.TimesStat{{CPU: "cpu0", User: user, Iowait: iowait, Idle: idle}, {CPU: "cpu1", Idle: idle}}
	}
	if _, found := shares.next(one(10, 0, 90), now); found {
		t.Error("the first times have a share")
	}
	for _, step := range []struct {
		times []cpu.TimesStat
		want  float64
	}{{one(20, 15, 165), 25}, {one(20, 15, 165), 0}, {one(10, 15, 180), 0}} {
		uses, found := shares.next(step.times, now)
		if !found || len(uses) != 2 || uses[0].Percent != step.want || uses[1].Percent != 0 || uses[0].Time != now {
			t.Errorf("after %+v the use is %+v (%v), want %v%%", step.times, uses, found, step.want)
		}
	}
	// A processor that was plugged in has no share yet.
	if uses, _ := shares.next([]cpu.TimesStat{{CPU: "cpu2", User: 5}}, now); uses[0].Percent != 0 {
		t.Errorf("the use is %+v", uses)
	}
}

func TestRatesOfInterfaces(t *testing.T) {
	var rates nicRates
	at := time.Unix(100, 0)
	step := func(after time.Duration, counts ...psnet.IOCountersStat) string {
		at = at.Add(after)
		var out []string
		for _, n := range rates.next(counts, at) {
			out = append(out, n.Name+" "+time.Duration(n.RateOut).String()+" "+time.Duration(n.RateIn).String())
		}
		return strings.Join(out, ", ")
	}
	nic := func(name string, sent, received uint64) psnet.IOCountersStat {
		return psnet.IOCountersStat{Name: name, BytesSent: sent, BytesRecv: received}
	}
	for i, c := range []struct{ got, want string }{
		{step(0, nic("b", 1000, 50), nic("a", 5, 5)), "a 0s 0s, b 0s 0s"},
		{step(2*time.Second, nic("b", 1020, 50), nic("a", 5, 9)), "a 0s 2ns, b 10ns 0s"},
		{step(0, nic("b", 2000, 50)), "b 0s 0s"},
		{step(time.Second, nic("b", 1, 51), nic("a", 9, 9)), "a 0s 0s, b 0s 1ns"},
	} {
		if c.got != c.want {
			t.Errorf("step %d: %s, want %s", i, c.got, c.want)
		}
	}
}

// TestVersionsShareReadings wants the streams of both versions to share each reading.
func TestVersionsShareReadings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := made(t, Config{})
		reads := uint64(0)
		m.disks.read = func(context.Context) (map[string]disk.IOCountersStat, error) {
			reads++
			return map[string]disk.IOCountersStat{"sda": {ReadCount: reads}}, nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		rich, seeds := m.System().Disks(ctx), m.SeedSystem().Disks(ctx)
		for want := range uint64(5) {
			if a, b := <-rich, <-seeds; a[0].ReadCount != want+1 || b["sda"].ReadCount != want+1 {
				t.Errorf("they are %+v and %+v, want the reading %d of both", a, b, want+1)
			}
		}
		cancel()
		for range rich {
		}
		for range seeds {
		}
	})
}

func TestAReadingThatFailedIsntKept(t *testing.T) {
	n := 0
	r := reading[int]{read: func(context.Context) (int, error) {
		if n++; n == 2 {
			return 0, errors.New("not now")
		}
		return n, nil
	}}
	for i, c := range []struct {
		age  time.Duration
		want int
		err  bool
	}{{time.Hour, 1, false}, {time.Hour, 1, false}, {0, 0, true}, {0, 3, false}, {time.Hour, 3, false}} {
		if got, err := r.get(t.Context(), c.age); got != c.want || (err != nil) != c.err {
			t.Errorf("%d: %d, %v, want %d", i, got, err, c.want)
		}
	}
}
