package daemon

import (
	"context"
	"strings"

	"github.com/croft-edge/croft/modules/network/carrier"
	vdisk "github.com/croft-edge/croft/modules/storage/volume"
	"github.com/croft-edge/croft/modules/vm/qemu"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/pkg/zdbspace"
	"github.com/croft-edge/croft/provision/admit"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/provisioner/zdb"
)

// sizes are the node's settings on which a reservation's demand depends.
type sizes struct {
	// layer is how much a container may write outside its volumes, in bytes; layerOn the disk type of
	// layers, empty where unknown.
	layer   uint64
	layerOn workload.DeviceType
}

// sizes asks the storage module once, so that a reservation's demand never changes.
func (d *daemon) sizes(m clients) sizes {
	out := sizes{layer: d.Containers.Layer}
	ctx, cancel := context.WithTimeout(context.Background(), askModule)
	defer cancel()
	status, err := m.storage.Status(ctx)
	if err != nil {
		d.Log.Warn().Err(err).Msg("cannot find the pool of containers' writable layers: their space isn't counted before they exist")
		return out
	}
	out.layerOn = layerOn(status)
	return out
}

// layerOn is the disk type of layers: SSD if the node has one.
func layerOn(status node.StorageStatus) (on workload.DeviceType) {
	for _, p := range status.Pools {
		if on != workload.SSD {
			on = p.DiskType
		}
	}
	for _, p := range status.BrokenPools {
		if p.DiskType == workload.SSD {
			on = workload.SSD
		}
	}
	return on
}

// demand is the amount of the node's resources that a reservation takes, in bytes: of the disk, the
// amount that the storage module will promise for it.
func (s sizes) demand(r *workload.Reservation) (provisioner.Demand, error) {
	switch r.Type {
	case workload.TypeContainer:
		c, err := workload.DataOf[workload.Container](r)
		if err != nil {
			return provisioner.Demand{}, node.WithKind(node.Invalid, err)
		}
		layer := onDisk(s.layerOn, s.counted(s.layerOn))
		return layer.Add(provisioner.Demand{CPU: uint64(c.Capacity.CPU), Memory: c.Capacity.Bytes()}), nil
	case workload.TypeVolume:
		v, err := workload.DataOf[workload.Volume](r)
		return onDisk(v.Type, v.Size*gib), node.WithKind(node.Invalid, err)
	case workload.TypeZDB:
		z, err := workload.DataOf[workload.ZDB](r)
		if err != nil {
			return provisioner.Demand{}, node.WithKind(node.Invalid, err)
		}
		return onDisk(z.DiskType, zdbspace.Bound(z.Bytes())), nil
	case workload.TypeKubernetes:
		return s.kubernetes(r)
	case workload.TypeNetwork:
		n, err := workload.DataOf[workload.Network](r)
		if err != nil {
			return provisioner.Demand{}, node.WithKind(node.Invalid, err)
		}
		return provisioner.Demand{Tunnels: tunnels(n, r.NodeID)}, nil
	}
	return provisioner.Demand{}, nil
}

// kubernetes is the demand of a VM with its emulator, which takes most without KVM, and its disk.
func (s sizes) kubernetes(r *workload.Reservation) (provisioner.Demand, error) {
	k, err := workload.DataOf[workload.Kubernetes](r)
	if err != nil {
		return provisioner.Demand{}, node.WithKind(node.Invalid, err)
	}
	size, ok := workload.VMSizeOf(k.Size)
	if !ok {
		return provisioner.Demand{}, node.Errorf(node.Invalid, "data.size is %d, must be from 1 to %d", k.Size, workload.MaxVMSize)
	}
	out := provisioner.Demand{CPU: size.CPU, Memory: size.Memory + qemu.Overhead(qemu.TCG, size.Memory, size.CPU)}
	if s.layerOn != "" {
		out = out.Add(onDisk(s.layerOn, vdisk.DiskRoom(size.Disk)))
	}
	return out, nil
}

// tunnels is the share of the wg carrier's memory that a network's part on a node takes.
func tunnels(n workload.Network, nodeID string) uint64 {
	peers, ranges := 0, 0
	for _, part := range n.Resources {
		if part.NodeID != nodeID {
			continue
		}
		peers += len(part.Peers)
		for _, p := range part.Peers {
			ranges += len(p.AllowedIPs)
		}
	}
	return carrier.Cost(peers, ranges)
}

func onDisk(t workload.DeviceType, size uint64) provisioner.Demand {
	if t == workload.HDD {
		return provisioner.Demand{HDD: size}
	}
	return provisioner.Demand{SSD: size}
}

// room is the node's capacity for workloads.
type room struct {
	admit.Offer
	// free is the disk space that isn't promised, in whole GiB per pool, as volumes are: a volume can't
	// span two pools.
	free provisioner.Demand
}

// roomOf is total, less the storage module's promises that no workload's demand counts.
func roomOf(total provisioner.Demand, status node.StorageStatus, b beside) room {
	var whole provisioner.Demand
	out := room{Offer: admit.Offer{Total: total.Sub(b.sum), Held: b.held, Whole: &whole, Broken: brokenPools(status.BrokenPools)}}
	for _, p := range status.Pools {
		free := less(p.Offered, p.Reserved)
		out.free = out.free.Add(onDisk(p.DiskType, free/gib*gib))
		most := onDisk(p.DiskType, free)
		whole.SSD, whole.HDD = max(whole.SSD, most.SSD), max(whole.HDD, most.HDD)
	}
	return out
}

// beside is the storage module's promises that no workload's demand counts, in bytes: zdb containers'
// own space, the kept data of ended workloads.
type beside struct {
	sum provisioner.Demand
	// held is the part of sum made for workloads that don't count as present, by ID.
	held map[string]provisioner.Demand
}

// beside computes the sums. present reports whether the workload of an ID counts.
func (s sizes) beside(pools []node.Pool, filesystems []node.Filesystem, disks []node.VDisk, present func(id string) bool) beside {
	out := beside{held: map[string]provisioner.Demand{}}
	listed := map[string]uint64{}
	for _, d := range disks {
		room := vdisk.DiskRoom(d.Size)
		listed[d.Pool] += room
		size := onDisk(d.DiskType, room)
		if !present(d.Name) {
			out.held[d.Name] = out.held[d.Name].Add(size)
		} else if d.DiskType == s.layerOn {
			size = provisioner.Demand{}
		}
		out.sum = out.sum.Add(size)
	}
	for _, fs := range filesystems {
		listed[fs.Pool] += fs.Size
		size := onDisk(fs.DiskType, fs.Size)
		id, isLayer := strings.CutSuffix(fs.Name, layerSuffix)
		if own, ok := zdb.Own(fs); ok {
			size = onDisk(fs.DiskType, own)
		} else if !present(id) {
			out.held[id] = out.held[id].Add(size)
		} else if size = (provisioner.Demand{}); isLayer {
			size = onDisk(fs.DiskType, less(fs.Size, s.counted(fs.DiskType)))
		}
		out.sum = out.sum.Add(size)
	}
	for _, p := range pools {
		out.sum = out.sum.Add(onDisk(p.DiskType, less(p.Reserved, listed[p.Name])))
	}
	return out
}

// counted is the layer size in a container's demand for that disk type.
func (s sizes) counted(on workload.DeviceType) uint64 {
	if on != s.layerOn || on == "" {
		return 0
	}
	return s.layer
}

// layerSuffix follows a container's ID in the name of its layer's file system.
const layerSuffix = ".layer"

// present reports whether the workload of that ID counts as present.
func (b *engineParts) present(id string) bool {
	rec, err := b.store.Record(id)
	return err == nil && rec.Present()
}
