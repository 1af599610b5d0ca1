package daemon

import (
	"encoding/hex"
	"slices"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/registration"
	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/resources/host"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/admit"
	"github.com/croft-edge/croft/provision/provisioner"
)

const gib = 1 << 30

// offered is the node's capacity for workloads: its total less its own reserve, cores times
// the overcommit. Sizes are in bytes.
func offered(host node.HostInfo, pools []node.Pool, c config.Config) provisioner.Demand {
	keep := c.Reserve
	var ssd, hdd uint64
	for _, p := range pools {
		if p.DiskType == workload.HDD {
			hdd += p.Offered
		} else {
			ssd += p.Offered
		}
	}
	return provisioner.Demand{
		CPU: less(host.Cores, keep.CPU) * max(c.Overcommit, 1), Memory: less(host.Memory, keep.Memory),
		SSD: less(ssd, keep.Disk), HDD: less(hdd, keep.Disk), Tunnels: uint64(admit.TunnelMemory.Total),
	}
}

// less is a-b, and 0 when b is more.
func less(a, b uint64) uint64 {
	if b > a {
		return 0
	}
	return a - b
}

// capacityOf is the room for workloads, of which used is promised. Of the disks no more is free than the pools have.
func capacityOf(r room, used provisioner.Demand) host.CapacitySpec {
	return host.CapacitySpec{
		Total: amounts(r.Total), Used: amounts(used),
		Free: host.Amounts{
			CPU: less(r.Total.CPU, used.CPU), Memory: less(r.Total.Memory, used.Memory),
			SSD: min(less(r.Total.SSD, used.SSD), r.free.SSD), HDD: min(less(r.Total.HDD, used.HDD), r.free.HDD),
		},
	}
}

func amounts(d provisioner.Demand) host.Amounts {
	return host.Amounts{CPU: d.CPU, Memory: d.Memory, SSD: d.SSD, HDD: d.HDD}
}

// inUnits are d in the explorer's units: cores and whole GiB.
func inUnits(d host.Amounts) explorer.Resources {
	return explorer.Resources{CRU: d.CPU, MRU: d.Memory / gib, SRU: d.SSD / gib, HRU: d.HDD / gib}
}

// inUnitsUp are d in the explorer's units, rounded up: for used resources.
func inUnitsUp(d host.Amounts) explorer.Resources {
	up := func(n uint64) uint64 { return (n + gib - 1) / gib }
	return explorer.Resources{CRU: d.CPU, MRU: up(d.Memory), SRU: up(d.SSD), HRU: up(d.HDD)}
}

// nodeFacts are the values that a node registers about itself.
type nodeFacts struct {
	nodeID  string
	farm    uint64
	version string
	birth   string
	host    node.HostInfo
	room    host.CapacitySpec
	// ports are the UDP ports of networks' tunnels, in order.
	ports []uint
	// door is the address at which users reach the node, empty when they can't reach it directly.
	door string
}

// facts converts the values for the explorer.
func (s nodeFacts) facts() (registration.Facts, error) {
	key, err := sign.ParseID(s.nodeID)
	if err != nil {
		return registration.Facts{}, err
	}
	addresses := slices.Clone(s.host.Addresses)
	slices.Sort(addresses)
	used, free := inUnitsUp(s.room.Used), inUnits(s.room.Free)
	n := explorer.Node{
		NodeID: s.nodeID, FarmID: s.farm, OSVersion: s.version, Birth: s.birth, PublicKeyHex: hex.EncodeToString(key), Door: s.door,
		TotalResources: inUnits(s.room.Total),
		Proofs:         []any{}, WGPorts: append([]uint{}, s.ports...),
		Ifaces: []explorer.Iface{{Name: "host", Addrs: []string{}, Gateway: []string{}}},
	}
	if len(addresses) > 0 {
		n.Address = addresses[0]
	}
	for _, a := range addresses {
		n.Ifaces[0].Addrs = append(n.Ifaces[0].Addrs, explorer.CIDR(a))
	}
	beat := explorer.Heartbeat{Uptime: int64(s.host.Uptime), UsedResources: &used, FreeResources: &free, Birth: s.birth}
	return registration.Facts{Node: n, Heartbeat: beat}, nil
}

// ports are the UDP ports of users' networks on this node, in order. The explorer shows them, so that
// new networks choose others.
func (b *engineParts) ports() []uint {
	records, err := b.store.List()
	if err != nil {
		return nil
	}
	var out []uint
	for _, rec := range records {
		if rec.Tombstone() || rec.Reservation.Type != workload.TypeNetwork {
			continue
		}
		data, err := workload.DataOf[workload.Network](rec.Reservation)
		if err != nil {
			continue
		}
		for _, res := range data.Resources {
			if port := uint(res.ListenPort); res.NodeID == b.nodeID && !slices.Contains(out, port) {
				out = append(out, port)
			}
		}
	}
	slices.Sort(out)
	return out
}
