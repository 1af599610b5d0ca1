package storage

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/modules/storage/bytesize"
	"github.com/croft-edge/croft/modules/storage/volume"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// diskBlock divides a disk's size: the larger of the two block sizes that VMs
// see.
const diskBlock = 4 * bytesize.KiB

// diskService is the module's bus object storage.vdisk.
type diskService struct{ m *Module }

// Allocate makes a disk, or returns the one of that name, which it grows when a larger
// size is asked for.
func (s diskService) Allocate(spec node.VDiskSpec) (node.VDisk, error) {
	if err := checkDisk(spec); err != nil {
		return node.VDisk{}, err
	}
	done, err := s.m.begin()
	if err != nil {
		return node.VDisk{}, err
	}
	defer done()
	p, l, err := s.m.find(vdisks(), spec.Name)
	if err == nil {
		return s.adopt(p, l, spec)
	}
	if !errors.Is(err, node.NotExist) {
		return node.VDisk{}, err
	}
	types := []workload.DeviceType{spec.DiskType}
	if spec.DiskType == "" {
		types = []workload.DeviceType{workload.SSD, workload.HDD}
	}
	p, err = s.m.choose(wish{what: vdisks().what + " " + spec.Name, size: volume.DiskRoom(spec.Size), types: types})
	if err != nil {
		return node.VDisk{}, err
	}
	f, err := p.open()
	if err != nil {
		return node.VDisk{}, err
	}
	defer f.Close()
	l = volume.Label{Name: spec.Name, Size: spec.Size, Hash: spec.Hash}
	err = p.disks.Create(f, l)
	s.m.changed.fire() // it may be there although that has failed
	if err != nil {
		return node.VDisk{}, err
	}
	return p.disk(f, l)
}

func checkDisk(spec node.VDiskSpec) error {
	if err := checkName("vdisk", spec.Name); err != nil {
		return err
	}
	if spec.Size == 0 || spec.Size%diskBlock != 0 || spec.Size > math.MaxInt64 {
		return node.Errorf(node.Invalid, "cannot create vdisk %s: size is %d bytes, must be a multiple of %d between %d and 2^63", spec.Name, spec.Size, diskBlock, diskBlock)
	}
	if spec.DiskType != "" && spec.DiskType != workload.SSD && spec.DiskType != workload.HDD {
		return node.Errorf(node.Invalid, "cannot create vdisk %s: disk type is %q, must be SSD, HDD or empty", spec.Name, spec.DiskType)
	}
	return diskClaim(spec).Valid("create vdisk " + spec.Name)
}

func diskClaim(spec node.VDiskSpec) node.Claim {
	return node.Claim{Hash: spec.Hash, AdoptUnlabelled: spec.AdoptUnlabelled}
}

// adopt returns the existing disk, if it is the caller's and matches spec. It grows one that
// is smaller; one without a hash gets the caller's.
func (s diskService) adopt(p *pool, l volume.Label, spec node.VDiskSpec) (node.VDisk, error) {
	none := node.VDisk{}
	if err := diskClaim(spec).Check("create vdisk "+spec.Name, l.Hash); err != nil {
		return none, err
	}
	if l.Size > spec.Size || spec.DiskType != "" && p.diskType != spec.DiskType {
		return none, node.Errorf(node.Exist, "cannot create vdisk %s: there is one of %d bytes on %s, asked for are %d bytes on %s, and a disk never shrinks",
			spec.Name, l.Size, p.diskType, spec.Size, cmp.Or(spec.DiskType, "any"))
	}
	if spec.Size > l.Size {
		if err := p.mayGrow(vdisks(), l, spec.Size); err != nil {
			return none, err
		}
	}
	f, err := p.open()
	if err != nil {
		return none, err
	}
	defer f.Close()
	if l.Hash != spec.Hash {
		l.Hash = spec.Hash
		if err := p.disks.Claim(f, l); err != nil {
			return none, err
		}
	}
	if spec.Size == l.Size {
		err = p.disks.Extend(l)
	} else {
		err = p.disks.Grow(f, l, spec.Size)
		l.Size = spec.Size
		s.m.changed.fire()
	}
	if err != nil {
		return none, err
	}
	return p.disk(f, l)
}

// Deallocate removes the disk and its data.
func (s diskService) Deallocate(name string) error {
	if err := checkName("vdisk", name); err != nil {
		return err
	}
	done, err := s.m.begin()
	if err != nil {
		return err
	}
	defer done()
	p, _, err := s.m.find(vdisks(), name)
	if err != nil {
		return err
	}
	f, err := p.open()
	if err != nil {
		return err
	}
	defer f.Close()
	defer s.m.changed.fire()
	return p.disks.Remove(f, name)
}

// Inspect returns the disk with its use as of the pool's last commit.
func (s diskService) Inspect(name string) (node.VDisk, error) {
	if err := checkName("vdisk", name); err != nil {
		return node.VDisk{}, err
	}
	p, l, err := s.m.find(vdisks(), name)
	if err != nil {
		return node.VDisk{}, err
	}
	f, err := p.open()
	if err != nil {
		return node.VDisk{}, err
	}
	defer f.Close()
	return p.disk(f, l)
}

// List returns the disks of all pools that can be read, by name.
func (s diskService) List() ([]node.VDisk, error) {
	list := []node.VDisk{}
	for p, labels := range s.m.labels(vdisks()) {
		for _, l := range labels {
			list = append(list, p.describeDisk(l))
		}
	}
	slices.SortFunc(list, func(a, b node.VDisk) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}
