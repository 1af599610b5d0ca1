package node

import (
	"context"

	"github.com/croft-edge/croft/pkg/workload"
)

// The storage module's address on the bus.
const (
	StorageModule  = "storage"
	StorageObject  = "storage"
	StorageVersion = "0.1.0"

	VDiskObject  = "vdisk"
	VDiskVersion = "0.1.0"
)

// FilesystemSpec asks for a file system of its own with an enforced size.
type FilesystemSpec struct {
	// Name labels it: the reservation's ID for a volume.
	Name string
	// Size is the limit in bytes, enforced by the file system.
	Size uint64
	// DiskType is SSD or HDD; only pools of that type are considered.
	DiskType workload.DeviceType
	// Pool is the name of the only pool that is considered; empty for all.
	Pool string
	// Hash is the reservation's, AdoptUnlabelled whether a file system without a
	// hash counts as its own: see Claim.
	Hash            string
	AdoptUnlabelled bool
}

// Filesystem is a btrfs subvolume with a quota.
type Filesystem struct {
	Name string
	// Path is its mount point on the node.
	Path string
	// Pool is the name of the pool it lies on.
	Pool     string
	DiskType workload.DeviceType
	// Size is its limit, Used its used space; bytes.
	Size uint64
	Used uint64
	// Hash is the hash of its reservation (see Claim), empty without a reservation or
	// when a croft that recorded none made it.
	Hash string
}

// Pool is a btrfs file system on devices of one type.
type Pool struct {
	Name     string              `yaml:"name" protobuf:"1"`
	Path     string              `yaml:"path" protobuf:"2"`
	DiskType workload.DeviceType `yaml:"disk_type" protobuf:"3"`
	Devices  []string            `yaml:"devices" protobuf:"4"`
	// Total is the size of the file system, Used its used space; bytes.
	Total uint64 `yaml:"total" protobuf:"5"`
	Used  uint64 `yaml:"used" protobuf:"6"`
	// Offered is the part of Total that may be promised, Reserved the sum of the
	// sizes promised to file systems and disks; bytes.
	Offered  uint64 `yaml:"offered" protobuf:"7"`
	Reserved uint64 `yaml:"reserved" protobuf:"8"`
	// Remounted counts the remounts since the module's start, after somebody else
	// had unmounted it.
	Remounted uint64 `yaml:"remounted" protobuf:"9"`
	// State is the part of Reserved for the state of the node itself; bytes. 0 for a pool that doesn't have it.
	State uint64 `yaml:"state" protobuf:"10"`
}

// BrokenPool is a pool that can't be used, and the cause.
type BrokenPool struct {
	Name string `yaml:"name" protobuf:"1"`
	// DiskType is empty when it is unknown, too.
	DiskType workload.DeviceType `yaml:"disk_type" protobuf:"2"`
	Cause    string              `yaml:"cause" protobuf:"3"`
}

// BrokenDevice is a device that can't be used, and the cause.
type BrokenDevice struct {
	Path  string `yaml:"path" protobuf:"1"`
	Cause string `yaml:"cause" protobuf:"2"`
}

// StorageStatus is the state of the node's storage for an operator.
type StorageStatus struct {
	Pools         []Pool
	BrokenPools   []BrokenPool
	BrokenDevices []BrokenDevice
	// Quota names the kind of quota in force: "simple" or "qgroup".
	Quota string
}

// PoolUse is one event of the Monitor stream.
type PoolUse struct {
	Name     string
	Total    uint64
	Used     uint64
	Reserved uint64
}

// Storage makes and removes file systems on the node's pools. Bus:
// storage.storage@0.1.0.
type Storage interface {
	// CreateFilesystem makes it, or returns the one of that name. NoSpace names
	// the needed and the free space; Exist when one of that name has another size,
	// type or pool, or belongs to another reservation: it stays untouched.
	CreateFilesystem(spec FilesystemSpec) (Filesystem, error)
	// ReleaseFilesystem removes it with all its data. NotExist when there is none.
	ReleaseFilesystem(name string) error
	// ResizeFilesystem sets its limit, its data stays. NoSpace names the needed and
	// the free space; Busy when it holds more than that. NotExist when there is none.
	ResizeFilesystem(name string, size uint64) (Filesystem, error)
	// InspectFilesystem returns it with its present use. NotExist when there is none.
	InspectFilesystem(name string) (Filesystem, error)
	// ListFilesystems returns all that carry croft's label, without their use.
	ListFilesystems() ([]Filesystem, error)
	// Status reports pools, and broken pools and devices.
	Status() (StorageStatus, error)
	// Monitor reports each pool's use when it changes, and at least every minute.
	Monitor(ctx context.Context) <-chan PoolUse
}

// VDiskSpec asks for a virtual disk.
type VDiskSpec struct {
	// Name labels it: the reservation's ID.
	Name string
	// Size is the size of the image in bytes, a multiple of 4096.
	Size uint64
	// DiskType is SSD or HDD; only pools of that type are considered. Empty for an SSD
	// pool, or an HDD pool when no SSD pool has room.
	DiskType workload.DeviceType
	// Hash is the reservation's, AdoptUnlabelled whether a disk without a
	// hash counts as its own: see Claim.
	Hash            string
	AdoptUnlabelled bool
}

// VDisk is a raw, sparse disk image for a VM. Its whole size is promised: each of its blocks
// can be written, in any order and again, whatever others write. A block that was discarded
// (FALLOC_FL_PUNCH_HOLE) gives its space back once all blocks that were written together with
// it, the extent, are discarded; until then a new write of it takes space beside it, which
// counts for the disk. EDQUOT, or ENOSPC with direct I/O, when that exceeds what the disk has.
type VDisk struct {
	Name string
	// Path is the image's file, which only root can reach.
	Path string
	// Pool is the name of the pool it lies on.
	Pool     string
	DiskType workload.DeviceType
	// Size is the size of the image, Used its space on the pool, with btrfs' map of it; bytes.
	Size uint64
	Used uint64
	// Hash is the hash of its reservation (see Claim), empty without one.
	Hash string
}

// VDisks allocates virtual disks. Bus: storage.vdisk@0.1.0.
type VDisks interface {
	// Allocate makes a disk, or returns the one of that name. One that is there is never made
	// anew, and its data never touched; a larger size grows it. NoSpace names the needed and
	// the free space; Exist when the one of that name is larger, of another type, or belongs
	// to another reservation: it stays untouched.
	Allocate(spec VDiskSpec) (VDisk, error)
	// Deallocate removes the disk and its data. NotExist when there is none.
	Deallocate(name string) error
	// Inspect returns the disk with its use as of the pool's last commit. NotExist when there
	// is none.
	Inspect(name string) (VDisk, error)
	// List returns all disks, without their use.
	List() ([]VDisk, error)
}
