package monitor

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
)

// system is the module's bus object monitor.system.
type system struct{ m *Module }

// CPU streams the share of the processors in use. The first value comes after
// one interval: a share needs two readings.
func (s system) CPU(ctx context.Context) <-chan node.CPUUse {
	var c cpuCounter
	return stream(ctx, s.m, "cpu", c.read)
}

// Memory streams the use of memory.
func (s system) Memory(ctx context.Context) <-chan node.MemoryUse {
	return stream(ctx, s.m, "memory", s.m.readMemory)
}

// Disks streams the counts of block devices, by name.
func (s system) Disks(ctx context.Context) <-chan node.DisksUse {
	return stream(ctx, s.m, "disks", s.m.readDisks)
}

// Nics streams the counts of network interfaces, by name.
func (s system) Nics(ctx context.Context) <-chan node.NicsUse {
	return stream(ctx, s.m, "nics", s.m.readNics)
}

// stream reads at once and then every interval, until ctx ends. A reading that
// fails is logged and left out; found is false when there is nothing to tell yet.
func stream[T any](ctx context.Context, m *Module, what string, read func(context.Context) (v T, found bool, err error)) <-chan T {
	out := make(chan T)
	go func() {
		defer close(out)
		next := time.NewTicker(m.cfg.Interval)
		defer next.Stop()
		for {
			v, found, err := read(ctx)
			if err != nil && ctx.Err() == nil {
				m.cfg.Log.Warn().Err(err).Str("what", what).Msg("cannot measure the machine")
			}
			if err == nil && found {
				select {
				case out <- v:
				case <-ctx.Done():
					return
				}
			}
			select {
			case <-next.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

func (m *Module) readMemory(ctx context.Context) (node.MemoryUse, bool, error) {
	v, err := m.memory.get(ctx, m.age())
	if err != nil {
		return node.MemoryUse{}, false, errors.Wrap(err, "cannot read memory")
	}
	return node.MemoryUse{Total: v.Total, Available: v.Available, Used: v.Used}, true, nil
}

func (m *Module) readDisks(ctx context.Context) (node.DisksUse, bool, error) {
	counts, err := m.disks.get(ctx, m.age())
	if err != nil {
		return nil, false, errors.Wrap(err, "cannot read disks")
	}
	uses := make(node.DisksUse, 0, len(counts))
	for name, c := range counts {
		uses = append(uses, node.DiskUse{
			Name: name, ReadBytes: c.ReadBytes, WriteBytes: c.WriteBytes, ReadCount: c.ReadCount, WriteCount: c.WriteCount,
		})
	}
	slices.SortFunc(uses, func(a, b node.DiskUse) int { return strings.Compare(a.Name, b.Name) })
	return uses, true, nil
}

func (m *Module) readNics(ctx context.Context) (node.NicsUse, bool, error) {
	counts, err := m.nics.get(ctx, m.age())
	if err != nil {
		return nil, false, errors.Wrap(err, "cannot read network interfaces")
	}
	uses := make(node.NicsUse, 0, len(counts))
	for _, c := range counts {
		uses = append(uses, node.NicUse{
			Name: c.Name, BytesSent: c.BytesSent, BytesRecv: c.BytesRecv,
			PacketsSent: c.PacketsSent, PacketsRecv: c.PacketsRecv, Errors: c.Errin + c.Errout,
		})
	}
	slices.SortFunc(uses, func(a, b node.NicUse) int { return strings.Compare(a.Name, b.Name) })
	return uses, true, nil
}
