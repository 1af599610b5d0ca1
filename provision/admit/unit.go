package admit

import (
	"fmt"
	"math"
	"strconv"

	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
)

// unit is a limited resource.
type unit struct {
	name string
	of   func(provisioner.Demand) uint64
	text func(uint64) string
	// on reports whether a broken pool may have had some of it.
	on func(BrokenPool) bool
	// reached counts a refusal, for a resource with a limit of package limit.
	reached func()
}

func units() []unit {
	return []unit{
		{"CPU", func(d provisioner.Demand) uint64 { return d.CPU }, cores, onNone, none},
		{"memory", func(d provisioner.Demand) uint64 { return d.Memory }, size, onNone, none},
		{"SSD space", func(d provisioner.Demand) uint64 { return d.SSD }, size, func(b BrokenPool) bool { return b.SSD }, none},
		{"HDD space", func(d provisioner.Demand) uint64 { return d.HDD }, size, func(b BrokenPool) bool { return b.HDD }, none},
		{"memory for tunnels", func(d provisioner.Demand) uint64 { return d.Tunnels }, size, onNone, TunnelMemory.Reached},
	}
}

// whole is how much of it is free in one piece; unlimited for a resource that isn't disk.
func (u unit) whole(free provisioner.Demand) uint64 {
	if !u.on(BrokenPool{SSD: true, HDD: true}) {
		return math.MaxUint64
	}
	return u.of(free)
}

func onNone(BrokenPool) bool { return false }

func none() {}

// TunnelMemory limits networks' memory (Demand.Tunnels) in the process that holds their
// tunnels and names, which all of a node share.
var TunnelMemory = limit.Limit{Name: "tunnel-memory", Per: "user", Each: 32 << 20, Total: 128 << 20, Unit: limit.Bytes}

// less subtracts down to 0.
func less(a, b uint64) uint64 {
	if b > a {
		return 0
	}
	return a - b
}

func cores(n uint64) string {
	if n == 1 {
		return "1 core"
	}
	return strconv.FormatUint(n, 10) + " cores"
}

// size formats bytes in the largest unit, rounded down to three decimals, which keep a free
// size from looking like the needed one.
func size(n uint64) string {
	for _, u := range []struct {
		name  string
		bytes uint64
	}{{"GiB", workload.GiB}, {"MiB", workload.MiB}} {
		switch {
		case n >= u.bytes && n%u.bytes == 0:
			return strconv.FormatUint(n/u.bytes, 10) + " " + u.name
		case n >= u.bytes:
			return fmt.Sprintf("%.3f %s", math.Floor(float64(n)/float64(u.bytes)*1000)/1000, u.name)
		}
	}
	return strconv.FormatUint(n, 10) + " B"
}
