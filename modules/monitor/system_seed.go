package monitor

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"
	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/disk"
	"github.com/shirou/gopsutil/v4/mem"
	"github.com/shirou/gopsutil/v4/net"

	"github.com/croft-edge/croft/pkg/node"
)

// seedSystem is monitor.system in the seed's layout.
type seedSystem struct{ m *Module }

// CPU streams each processor's times. The first value comes after one interval: the
// share in it needs two readings.
func (s seedSystem) CPU(ctx context.Context) <-chan node.SeedCPUs {
	shares := cpuShares{}
	return stream(ctx, s.m, "cpu", func(ctx context.Context) (node.SeedCPUs, bool, error) {
		times, err := cpu.TimesWithContext(ctx, true)
		if err != nil {
			return nil, false, errors.Wrap(err, "cannot read the processors")
		}
		uses, found := shares.next(times, time.Now())
		return uses, found, nil
	})
}

// Memory streams the use of memory.
func (s seedSystem) Memory(ctx context.Context) <-chan node.SeedMemory {
	return stream(ctx, s.m, "memory", func(ctx context.Context) (node.SeedMemory, bool, error) {
		m, err := s.m.memory.get(ctx, s.m.age())
		if err != nil {
			return node.SeedMemory{}, false, errors.Wrap(err, "cannot read memory")
		}
		return seedMemory(*m), true, nil
	})
}

// Disks streams the counts of block devices.
func (s seedSystem) Disks(ctx context.Context) <-chan node.SeedDisks {
	return stream(ctx, s.m, "disks", func(ctx context.Context) (node.SeedDisks, bool, error) {
		counts, err := s.m.disks.get(ctx, s.m.age())
		if err != nil {
			return nil, false, errors.Wrap(err, "cannot read disks")
		}
		return seedDisks(counts, time.Now()), true, nil
	})
}

// Nics streams the counts of network interfaces.
func (s seedSystem) Nics(ctx context.Context) <-chan node.SeedNics {
	var rates nicRates
	return stream(ctx, s.m, "nics", func(ctx context.Context) (node.SeedNics, bool, error) {
		counts, err := s.m.nics.get(ctx, s.m.age())
		if err != nil {
			return nil, false, errors.Wrap(err, "cannot read network interfaces")
		}
		return rates.next(counts, time.Now()), true, nil
	})
}

// cpuShares computes shares from the times since boot, by processor; each stream has its own.
type cpuShares map[string]cpuCounter

// next is each processor's share since the previous times; found is false for the first times.
func (c cpuShares) next(times []cpu.TimesStat, now time.Time) (uses node.SeedCPUs, found bool) {
	found = len(c) > 0
	for _, t := range times {
		// User time includes guest time.
		busy := t.User + t.System + t.Nice + t.Iowait + t.Irq + t.Softirq + t.Steal
		before, known := c[t.CPU]
		c[t.CPU] = cpuCounter{busy: busy, total: busy + t.Idle}
		percent := 0.0
		if passed := busy + t.Idle - before.total; known && passed > 0 {
			percent = min(100, max(0, 100*(busy-before.busy)/passed))
		}
		uses = append(uses, node.SeedCPU{
			CPU: t.CPU, User: t.User, System: t.System, Idle: t.Idle, Nice: t.Nice, Iowait: t.Iowait, Irq: t.Irq,
			Softirq: t.Softirq, Steal: t.Steal, Guest: t.Guest, GuestNice: t.GuestNice, Percent: percent, Time: now,
		})
	}
	return uses, found
}

func seedMemory(m mem.VirtualMemoryStat) node.SeedMemory {
	return node.SeedMemory{
		Total: m.Total, Available: m.Available, Used: m.Used, UsedPercent: m.UsedPercent, Free: m.Free,
		Active: m.Active, Inactive: m.Inactive, Wired: m.Wired, Laundry: m.Laundry,
		Buffers: m.Buffers, Cached: m.Cached, Writeback: m.WriteBack, Dirty: m.Dirty, WritebackTmp: m.WriteBackTmp,
		Shared: m.Shared, Slab: m.Slab, SReclaimable: m.Sreclaimable, SUnreclaim: m.Sunreclaim, PageTables: m.PageTables,
		SwapCached: m.SwapCached, CommitLimit: m.CommitLimit, CommittedAS: m.CommittedAS,
		HighTotal: m.HighTotal, HighFree: m.HighFree, LowTotal: m.LowTotal, LowFree: m.LowFree,
		SwapTotal: m.SwapTotal, SwapFree: m.SwapFree, Mapped: m.Mapped,
		VMallocTotal: m.VmallocTotal, VMallocUsed: m.VmallocUsed, VMallocChunk: m.VmallocChunk,
		HugePagesTotal: m.HugePagesTotal, HugePagesFree: m.HugePagesFree, HugePageSize: m.HugePageSize,
	}
}

func seedDisks(counts map[string]disk.IOCountersStat, now time.Time) node.SeedDisks {
	uses := make(node.SeedDisks, len(counts))
	for name, c := range counts {
		uses[name] = node.SeedDisk{
			ReadCount: c.ReadCount, MergedReadCount: c.MergedReadCount, WriteCount: c.WriteCount, MergedWriteCount: c.MergedWriteCount,
			ReadBytes: c.ReadBytes, WriteBytes: c.WriteBytes, ReadTime: c.ReadTime, WriteTime: c.WriteTime,
			IopsInProgress: c.IopsInProgress, IoTime: c.IoTime, WeightedIO: c.WeightedIO,
			Name: c.Name, SerialNumber: c.SerialNumber, Label: c.Label, Time: now,
		}
	}
	return uses
}

// nicRates computes rates from the bytes since boot; each stream has its own.
type nicRates struct {
	at   time.Time
	last map[string]net.IOCountersStat
}

// next are the counts with their rates since the previous ones; a rate is 0 at first, and
// when an interface was recreated.
func (r *nicRates) next(counts []net.IOCountersStat, now time.Time) node.SeedNics {
	passed := now.Sub(r.at).Seconds()
	last := make(map[string]net.IOCountersStat, len(counts))
	rate := func(before, after uint64) uint64 {
		if passed <= 0 || after < before {
			return 0
		}
		return uint64(float64(after-before) / passed)
	}
	uses := make(node.SeedNics, 0, len(counts))
	for _, c := range counts {
		use := node.SeedNic{
			Name: c.Name, BytesSent: c.BytesSent, BytesRecv: c.BytesRecv, PacketsSent: c.PacketsSent, PacketsRecv: c.PacketsRecv,
			Errin: c.Errin, Errout: c.Errout, Dropin: c.Dropin, Dropout: c.Dropout, Fifoin: c.Fifoin, Fifoout: c.Fifoout,
		}
		if before, known := r.last[c.Name]; known {
			use.RateOut, use.RateIn = rate(before.BytesSent, c.BytesSent), rate(before.BytesRecv, c.BytesRecv)
		}
		last[c.Name] = c
		uses = append(uses, use)
	}
	r.at, r.last = now, last
	slices.SortFunc(uses, func(a, b node.SeedNic) int { return strings.Compare(a.Name, b.Name) })
	return uses
}
