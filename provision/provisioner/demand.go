package provisioner

import "github.com/croft-edge/croft/pkg/saturate"

// Add returns the sum. It saturates on overflow.
func (d Demand) Add(more Demand) Demand {
	return Demand{
		CPU: saturate.Add(d.CPU, more.CPU), Memory: saturate.Add(d.Memory, more.Memory),
		SSD: saturate.Add(d.SSD, more.SSD), HDD: saturate.Add(d.HDD, more.HDD), Tunnels: saturate.Add(d.Tunnels, more.Tunnels),
	}
}

// Sub returns d minus less, each part at least 0.
func (d Demand) Sub(less Demand) Demand {
	return Demand{
		CPU: d.CPU - min(d.CPU, less.CPU), Memory: d.Memory - min(d.Memory, less.Memory),
		SSD: d.SSD - min(d.SSD, less.SSD), HDD: d.HDD - min(d.HDD, less.HDD), Tunnels: d.Tunnels - min(d.Tunnels, less.Tunnels),
	}
}

// Momentary is the part of d that a workload gives back when it is stopped: its
// disk space is held until it is removed.
func (d Demand) Momentary() Demand { return Demand{CPU: d.CPU, Memory: d.Memory} }
