package storage

import (
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/storage/bytesize"
	"github.com/croft-edge/croft/modules/storage/volume"
	"github.com/croft-edge/croft/pkg/btrfs"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/saturate"
	"github.com/croft-edge/croft/pkg/workload"
)

// pool is a btrfs on one device, and its things, which are read from it each time.
type pool struct {
	name     string
	diskType workload.DeviceType
	*mount
	filesystems *volume.Filesystems
	disks       *volume.Disks
	state       *volume.State
	log         zerolog.Logger
	// unlimited is why limits couldn't be set at the last try; guarded by the module's mu.
	unlimited string
}

// kind is one of the two kinds of thing on a pool; field what names it in messages.
type kind struct {
	what string
	of   func(p *pool) things
}

func filesystems() kind {
	return kind{what: "filesystem", of: func(p *pool) things { return p.filesystems }}
}

func vdisks() kind {
	return kind{what: "vdisk", of: func(p *pool) things { return p.disks }}
}

// stateVolumes are at most one.
func stateVolumes() kind {
	return kind{what: "state volume", of: func(p *pool) things { return p.state }}
}

func (p *pool) all() volume.All {
	return volume.All{Filesystems: p.filesystems, Disks: p.disks, State: p.state}
}

// things are those of one kind on a pool.
type things interface {
	Label(name string) (l volume.Label, found bool, err error)
	Labels() (map[string]volume.Label, error)
	Indexed(name string) bool
	// Room is how many bytes of the pool are promised to one of that size.
	Room(size uint64) uint64
}

// look asks the pool for a thing, and its index when the pool can't answer.
func (p *pool) look(all things, name string) (l volume.Label, found bool, err error) {
	f, err := p.open()
	if err == nil {
		defer f.Close()
		l, found, err = all.Label(name)
	}
	if err != nil && !all.Indexed(name) {
		return volume.Label{}, false, nil
	}
	return l, found, err
}

// reserved is the sum of all that is promised on the pool; bytes.
func (p *pool) reserved() (uint64, error) {
	var sum uint64
	for _, all := range []things{p.filesystems, p.disks, p.state} {
		labels, err := all.Labels()
		if err != nil {
			return 0, err
		}
		for _, l := range labels {
			sum = saturate.Add(sum, all.Room(l.Size))
		}
	}
	return sum, nil
}

// status reads the pool for an operator.
func (p *pool) status() (node.Pool, error) {
	space, err := p.space()
	if err != nil {
		return node.Pool{}, err
	}
	reserved, err := p.reserved()
	if err != nil {
		return node.Pool{}, err
	}
	state, _, err := p.state.Get()
	device, again := p.mountedFrom()
	return node.Pool{
		Name: p.name, Path: p.path, DiskType: p.diskType, Devices: []string{device}, Remounted: again,
		Total: space.Total, Used: space.Used, Offered: offered(space), Reserved: reserved, State: state.Size,
	}, err
}

// mayGrow fails with NoSpace when a thing can't grow to size.
func (p *pool) mayGrow(k kind, l volume.Label, size uint64) error {
	status, err := p.status()
	if err != nil {
		return err
	}
	all := k.of(p)
	more := saturate.Sub(all.Room(size), all.Room(l.Size))
	if free := saturate.Sub(status.Offered, status.Reserved); more > free {
		return node.Errorf(node.NoSpace, "cannot resize %s %s from %s to %s: needs %s more, free are %s on pool %s",
			k.what, l.Name, bytesize.Format(l.Size), bytesize.Format(size), bytesize.Format(more), bytesize.Format(free), p.name)
	}
	return nil
}

// filesystem describes the file system of that label, with its use.
func (p *pool) filesystem(f *btrfs.FS, l volume.Label) (out node.Filesystem, err error) {
	out = p.describe(l)
	out.Used, err = p.filesystems.Used(f, l.Name)
	return out, err
}

func (p *pool) describe(l volume.Label) node.Filesystem {
	return node.Filesystem{
		Name: l.Name, Path: p.filesystems.Place(l.Name), Pool: p.name, DiskType: p.diskType, Size: l.Size, Hash: l.Hash,
	}
}

// disk describes the disk of that label, with its use.
func (p *pool) disk(f *btrfs.FS, l volume.Label) (out node.VDisk, err error) {
	out = p.describeDisk(l)
	out.Used, err = p.disks.Used(f, l.Name)
	return out, err
}

func (p *pool) describeDisk(l volume.Label) node.VDisk {
	return node.VDisk{
		Name: l.Name, Path: p.disks.Image(l.Name), Pool: p.name, DiskType: p.diskType, Size: l.Size, Hash: l.Hash,
	}
}

// sweep removes some quota groups of a pool that works, from that ID on. It returns whether there are more, and from where on.
func (p *pool) sweep(from uint64) (next uint64, more bool) {
	f, err := p.open()
	if err != nil {
		return 0, false // Status says so
	}
	defer f.Close()
	next, more, err = volume.Sweep(f, from)
	if err != nil {
		p.log.Warn().Err(err).Str("pool", p.name).Msg("cannot remove the quota groups of removed subvolumes")
	}
	return next, more
}
