package storage

import (
	"math"
	"slices"
	"strings"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/modules/storage/bytesize"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// diskBlock divides a disk's size: the larger of the two block sizes that VMs
// see.
const diskBlock = 4 * bytesize.KiB

// diskService is the module's bus object storage.vdisk.
type diskService struct{ m *Module }

// Allocate makes a disk of size bytes, or returns the one of that name. It
// lies on an SSD pool when one has room, else on an HDD pool.
func (s diskService) Allocate(name string, size uint64) (node.VDisk, error) {
	if err := checkDisk(name, size); err != nil {
		return node.VDisk{}, err
	}
	done, err := s.m.begin()
	if err != nil {
		return node.VDisk{}, err
	}
	defer done()
	p, _, err := s.m.find(vdisks(), name)
	if err == nil {
		return sameDisk(p, name, size)
	}
	if !errors.Is(err, node.NotExist) {
		return node.VDisk{}, err
	}
	p, err = s.m.choose(wish{what: vdisks().what + " " + name, size: size, types: []workload.DeviceType{workload.SSD, workload.HDD}})
	if err != nil {
		return node.VDisk{}, err
	}
	f, err := p.open()
	if err != nil {
		return node.VDisk{}, err
	}
	defer f.Close()
	if err := p.disks.Create(name, size); err != nil {
		return node.VDisk{}, err
	}
	s.m.changed.fire()
	return p.disk(name)
}

func checkDisk(name string, size uint64) error {
	if err := checkName("vdisk", name); err != nil {
		return err
	}
	if size == 0 || size%diskBlock != 0 || size > math.MaxInt64 {
		return node.Errorf(node.Invalid, "cannot create vdisk %s: size is %d bytes, must be a multiple of %d between %d and 2^63", name, size, diskBlock, diskBlock)
	}
	return nil
}

func sameDisk(p *pool, name string, size uint64) (node.VDisk, error) {
	d, err := p.disk(name)
	if err == nil && d.Size != size {
		return node.VDisk{}, node.Errorf(node.Exist, "cannot create vdisk %s: there is one of %d bytes, asked for are %d", name, d.Size, size)
	}
	return d, err
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
	defer s.m.changed.fire()
	return p.disks.Remove(name)
}

// Inspect returns the disk.
func (s diskService) Inspect(name string) (node.VDisk, error) {
	if err := checkName("vdisk", name); err != nil {
		return node.VDisk{}, err
	}
	p, _, err := s.m.find(vdisks(), name)
	if err != nil {
		return node.VDisk{}, err
	}
	return p.disk(name)
}

// List returns the disks of all pools that can be read, by name.
func (s diskService) List() ([]node.VDisk, error) {
	list := []node.VDisk{}
	for p, labels := range s.m.labels(vdisks()) {
		for name := range labels {
			d, err := p.disk(name)
			if errors.Is(err, node.NotExist) {
				continue
			}
			if err != nil {
				return nil, err
			}
			list = append(list, d)
		}
	}
	slices.SortFunc(list, func(a, b node.VDisk) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}
