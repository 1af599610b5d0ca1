package fakenode

import (
	"io/fs"
	"maps"
	"math"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// blockSize is the size in bytes of a disk's blocks.
const blockSize = 4096

// VDisks is the virtual disks on the pools of a node's Storage. It implements node.VDisks.
type VDisks struct{ *Storage }

var _ node.VDisks = VDisks{}

// vdisk is a virtual disk, with the blocks that were written, by their numbers.
type vdisk struct {
	node.VDisk
	blocks map[uint64][]byte
}

// now is the disk with its present use.
func (d *vdisk) now() node.VDisk {
	out := d.VDisk
	out.Used = uint64(len(d.blocks)) * blockSize
	return out
}

// diskRoom is how many bytes a pool promises to a disk of that size.
func diskRoom(size uint64) uint64 { return size + size/16 }

// Allocate implements node.VDisks.
func (v VDisks) Allocate(spec node.VDiskSpec) (node.VDisk, error) {
	return answer(v.calls, "VDisks.Allocate", spec.Name, func() (node.VDisk, error) {
		what := "create vdisk " + spec.Name
		if err := checkDisk(what, spec); err != nil {
			return node.VDisk{}, err
		}
		v.mu.Lock()
		defer v.mu.Unlock()
		if d, ok := v.disks[spec.Name]; ok {
			return v.adopt(what, d, spec)
		}
		p, err := v.place(what, spec)
		if err != nil {
			return node.VDisk{}, err
		}
		d := &vdisk{blocks: map[uint64][]byte{}, VDisk: node.VDisk{
			Name: spec.Name, Path: p.Path + "/vdisks/" + spec.Name, Pool: p.Name, DiskType: p.DiskType, Size: spec.Size, Hash: spec.Hash,
		}}
		v.disks[spec.Name] = d
		v.tell()
		return d.now(), nil
	})
}

func checkDisk(what string, spec node.VDiskSpec) error {
	if err := checkName("create vdisk", spec.Name); err != nil {
		return err
	}
	if spec.Size == 0 || spec.Size%blockSize != 0 || spec.Size > math.MaxInt64 {
		return node.Errorf(node.Invalid, "cannot %s: size is %d bytes, must be a multiple of %d", what, spec.Size, blockSize)
	}
	if spec.DiskType != "" && spec.DiskType != workload.SSD && spec.DiskType != workload.HDD {
		return node.Errorf(node.Invalid, "cannot %s: disk type is %q, must be SSD, HDD or empty", what, spec.DiskType)
	}
	return node.Claim{Hash: spec.Hash}.Valid(what)
}

// adopt returns an existing disk to its reservation, larger if that is asked for.
func (v VDisks) adopt(what string, d *vdisk, spec node.VDiskSpec) (node.VDisk, error) {
	if cause := v.broken[d.Pool]; cause != "" {
		return node.VDisk{}, node.Errorf(node.Transient, "cannot %s: pool %s is broken: %s", what, d.Pool, cause)
	}
	if err := (node.Claim{Hash: spec.Hash, AdoptUnlabelled: spec.AdoptUnlabelled}).Check(what, d.Hash); err != nil {
		return node.VDisk{}, err
	}
	if spec.Size < d.Size || spec.DiskType != "" && spec.DiskType != d.DiskType {
		return node.VDisk{}, node.Errorf(node.Exist, "cannot %s: there is one of %d bytes on %s, asked for are %d bytes on %s",
			what, d.Size, d.DiskType, spec.Size, spec.DiskType)
	}
	if more, free := diskRoom(spec.Size)-diskRoom(d.Size), v.free(d.Pool); more > free {
		return node.VDisk{}, node.Errorf(node.NoSpace, "cannot resize vdisk %s from %s to %s: needs %s more, free are %s on pool %s",
			d.Name, bytes(d.Size), bytes(spec.Size), bytes(more), bytes(free), d.Pool)
	}
	d.Size, d.Hash = spec.Size, spec.Hash
	v.tell()
	return d.now(), nil
}

// free is what of a pool can still be promised; bytes.
func (v VDisks) free(pool string) uint64 {
	offered, reserved := v.pool(pool).Offered, v.reserved(pool)
	return offered - min(offered, reserved)
}

// place returns the first pool with room for a new disk.
func (v VDisks) place(what string, spec node.VDiskSpec) (node.Pool, error) {
	types := []workload.DeviceType{spec.DiskType}
	if spec.DiskType == "" {
		types = []workload.DeviceType{workload.SSD, workload.HDD}
	}
	var last error
	for _, t := range types {
		p, err := v.choose(what, node.FilesystemSpec{Name: spec.Name, Size: diskRoom(spec.Size), DiskType: t})
		if err == nil {
			return p, nil
		}
		if last == nil || node.KindOf(last) == node.Refused {
			last = err
		}
	}
	return node.Pool{}, last
}

// Deallocate implements node.VDisks.
func (v VDisks) Deallocate(name string) error {
	return carryOut(v.calls, "VDisks.Deallocate", name, func() error {
		v.mu.Lock()
		defer v.mu.Unlock()
		if _, err := v.disk("remove vdisk", name); err != nil {
			return err
		}
		delete(v.disks, name)
		v.tell()
		return nil
	})
}

// Inspect implements node.VDisks.
func (v VDisks) Inspect(name string) (node.VDisk, error) {
	return answer(v.calls, "VDisks.Inspect", name, func() (node.VDisk, error) {
		v.mu.Lock()
		defer v.mu.Unlock()
		d, err := v.disk("find vdisk", name)
		if err != nil {
			return node.VDisk{}, err
		}
		return d.now(), nil
	})
}

// List implements node.VDisks.
func (v VDisks) List() ([]node.VDisk, error) {
	return answer(v.calls, "VDisks.List", "", func() ([]node.VDisk, error) {
		v.mu.Lock()
		defer v.mu.Unlock()
		out := []node.VDisk{}
		for _, name := range sorted(v.disks) {
			if d := v.disks[name]; v.broken[d.Pool] == "" {
				out = append(out, d.VDisk)
			}
		}
		return out, nil
	})
}

// disk returns a disk on a pool that works. The caller holds mu.
func (v VDisks) disk(what, name string) (*vdisk, error) {
	if err := checkName(what, name); err != nil {
		return nil, err
	}
	d, ok := v.disks[name]
	if !ok {
		return nil, node.Errorf(node.NotExist, "cannot %s %s: there is none", what, name)
	}
	if cause := v.broken[d.Pool]; cause != "" {
		return nil, node.Errorf(node.Transient, "cannot %s %s: pool %s is broken: %s", what, name, d.Pool, cause)
	}
	return d, nil
}

// DiskImages are the images of a Storage's disks. It implements the Image of the suite of
// virtual disks.
type DiskImages struct{ Storage *Storage }

// with calls do with the disk of that path. fs.ErrNotExist when there is none.
func (i DiskImages) with(path string, do func(d *vdisk)) error {
	i.Storage.mu.Lock()
	defer i.Storage.mu.Unlock()
	for _, d := range i.Storage.disks {
		if d.Path == path {
			do(d)
			return nil
		}
	}
	return fs.ErrNotExist
}

// Write writes whole blocks.
func (i DiskImages) Write(path string, at uint64, data []byte) error {
	return i.with(path, func(d *vdisk) {
		for ; len(data) > 0; at, data = at+blockSize, data[blockSize:] {
			d.blocks[at/blockSize] = append([]byte{}, data[:blockSize]...)
		}
	})
}

// Read reads whole blocks.
func (i DiskImages) Read(path string, at uint64, size int) (data []byte, err error) {
	err = i.with(path, func(d *vdisk) {
		data = make([]byte, size)
		for n := 0; n < size; n += blockSize {
			copy(data[n:], d.blocks[(at+uint64(n))/blockSize])
		}
	})
	return data, err
}

// Discard forgets whole blocks.
func (i DiskImages) Discard(path string, at, size uint64) error {
	return i.with(path, func(d *vdisk) {
		maps.DeleteFunc(d.blocks, func(n uint64, _ []byte) bool { return n >= at/blockSize && n < (at+size)/blockSize })
	})
}

// Stat is the size of an image, which nobody else can open.
func (i DiskImages) Stat(path string) (size uint64, open bool, err error) {
	err = i.with(path, func(d *vdisk) { size = d.Size })
	return size, false, err
}

// Sync does nothing: the use of a fake disk is always up to date.
func (i DiskImages) Sync(string) error { return nil }
