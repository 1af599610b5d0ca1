package tasks

import (
	"context"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/cgroups/v3/cgroup1/stats"
	stats2 "github.com/containerd/cgroups/v3/cgroup2/stats"
	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/typeurl/v2"

	"github.com/croft-edge/croft/modules/container/containerd"
	"github.com/croft-edge/croft/pkg/node"
)

// Stats reads a container's present use. NotExist when there is none, Busy while it doesn't run.
func (x Index) Stats(ctx context.Context, id string) (node.ContainerStats, error) {
	in, found, err := x.Find(ctx, id)
	if err != nil {
		return node.ContainerStats{}, err
	}
	t, status, err := Current(in, found)
	if err != nil {
		return node.ContainerStats{}, err
	}
	if t == nil || status.Status != client.Running && status.Status != client.Paused {
		return node.ContainerStats{}, node.Errorf(node.Busy, "cannot measure container %s: it doesn't run", id)
	}
	metric, err := t.Metrics(in)
	if err != nil {
		if now, _, again := Current(in, found); again == nil && now == nil {
			return node.ContainerStats{}, node.Errorf(node.Busy, "cannot measure container %s: it has ended just now", id)
		}
		return node.ContainerStats{}, containerd.Error(err, "measure container %s", id)
	}
	out := node.ContainerStats{ID: id, At: time.Now().UnixNano()}
	decoded, err := typeurl.UnmarshalAny(metric.Data)
	if err != nil {
		return node.ContainerStats{}, node.Errorf(node.Internal, "cannot read containerd's metrics of container %s: %w", id, err)
	}
	switch measured := decoded.(type) {
	case *stats.Metrics:
		fill1(&out, measured)
	case *stats2.Metrics:
		fill2(&out, measured)
	default:
		return node.ContainerStats{}, node.Errorf(node.Internal, "cannot read containerd's metrics of container %s: it is a %T", id, decoded)
	}
	out.Received, out.Sent = traffic(t.Pid())
	return out, nil
}

// fill1 fills in the numbers of version 1's control groups.
func fill1(out *node.ContainerStats, m *stats.Metrics) {
	out.CPU = m.GetCPU().GetUsage().GetTotal()
	memory := m.GetMemory()
	out.Memory = less(memory.GetUsage().GetUsage(), memory.GetTotalInactiveFile())
	out.MemoryLimit = memory.GetUsage().GetLimit()
	out.PIDs, out.PIDsLimit = m.GetPids().GetCurrent(), m.GetPids().GetLimit()
	for _, entry := range m.GetBlkio().GetIoServiceBytesRecursive() {
		switch strings.ToLower(entry.GetOp()) {
		case "read":
			out.BlockRead += entry.GetValue()
		case "write":
			out.BlockWritten += entry.GetValue()
		}
	}
}

// fill2 fills in the numbers of version 2's control groups.
func fill2(out *node.ContainerStats, m *stats2.Metrics) {
	out.CPU = m.GetCPU().GetUsageUsec() * uint64(time.Microsecond)
	memory := m.GetMemory()
	out.Memory = less(memory.GetUsage(), memory.GetInactiveFile())
	out.MemoryLimit = memory.GetUsageLimit()
	out.PIDs, out.PIDsLimit = m.GetPids().GetCurrent(), m.GetPids().GetLimit()
	for _, entry := range m.GetIo().GetUsage() {
		out.BlockRead += entry.GetRbytes()
		out.BlockWritten += entry.GetWbytes()
	}
}

func less(a, b uint64) uint64 {
	if b > a {
		return 0
	}
	return a - b
}

// traffic is how many bytes the network interfaces of a process's namespace have carried.
func traffic(pid uint32) (received, sent uint64) {
	raw, err := os.ReadFile("/proc/" + strconv.FormatUint(uint64(pid), 10) + "/net/dev")
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(raw)) {
		name, counters, ok := strings.Cut(line, ":")
		fields := strings.Fields(counters)
		if !ok || strings.TrimSpace(name) == "lo" || len(fields) < 9 {
			continue
		}
		in, _ := strconv.ParseUint(fields[0], 10, 64)
		out, _ := strconv.ParseUint(fields[8], 10, 64)
		received, sent = received+in, sent+out
	}
	return received, sent
}
