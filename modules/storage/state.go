package storage

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/storage/blockdev"
	"github.com/croft-edge/croft/modules/storage/btrfs"
	"github.com/croft-edge/croft/modules/storage/bytesize"
	"github.com/croft-edge/croft/modules/storage/volume"
	"github.com/croft-edge/croft/pkg/mounts"
	"github.com/croft-edge/croft/pkg/node"
)

// share says how large a volume of the node's own is: that part of what its pool offers, but at most that many bytes, and at least that many
// where a fifth of the pool is more.
type share struct{ part, least, most uint64 }

// stateShare is for records, results, logs; imagesShare for images of containers and machines.
func stateShare() share  { return share{16, 512 * bytesize.MiB, 8 * bytesize.GiB} }
func imagesShare() share { return share{4, 2 * bytesize.GiB, 64 * bytesize.GiB} }

// smallPart is the part of a small pool that one volume of the node's own takes.
const smallPart = 5

// of is the share's size of a pool that offers that many bytes.
func (s share) of(offered uint64) uint64 {
	size := min(max(offered/s.part, min(s.least, offered/smallPart)), s.most)
	return size / diskBlock * diskBlock
}

// StateVolume are the volumes with the node's own state, on the node's first pool.
type StateVolume struct {
	Pool string `json:"pool"`
	// UUID is the file system's of the pool.
	UUID string `json:"uuid"`
	// Disk is the path of the pool's disk, as the configuration has it.
	Disk string `json:"disk"`
	// Path is where the state is mounted, with its pool; Images where images are to lie.
	Path   string `json:"path"`
	Images string `json:"images"`
	// Size is that of the state, ImagesSize that of the images, in bytes.
	Size       uint64 `json:"size"`
	ImagesSize uint64 `json:"images_size"`
	// Made tells that they were made now: this node is new.
	Made bool `json:"made"`
}

// StateWish says which state is wanted.
type StateWish struct {
	// UUID names the pool's file system if several have a state; empty for none.
	UUID string
	// Make are paths of disks of the configuration on which a new state may be made, in that order; none where only one that is there will do.
	Make []string
}

// OpenState mounts the pool with the node's state, where the module will find it, and returns the state's volumes. Where no disk of cfg has
// one, a pool and the volumes are made on the first disk of wish.Make that may be formatted by the rules of Open.
//
// It comes before the module is opened, whose own state lies on that volume: cfg.State isn't used. NotExist where no disk has a state and
// none may be formatted; Refused where several have one.
func OpenState(ctx context.Context, cfg Config, wish StateWish) (StateVolume, error) {
	if err := cfg.Validate(); err != nil {
		return StateVolume{}, err
	}
	temporary, err := os.MkdirTemp("", "croft-state-")
	if err != nil {
		return StateVolume{}, errors.Wrap(err, "cannot look for the node's state")
	}
	defer os.RemoveAll(temporary)
	mount := cfg.complete().Mounts
	// What the opener writes down of pools is of no use: the module does it again, in the state.
	cfg.State, cfg.Mounts = temporary, mount
	s := stateFinder{opener: &opener{cfg: cfg.complete(), marks: map[string]mark{}}, wish: wish}
	if err := os.MkdirAll(s.cfg.poolsDir(), 0o700); err != nil {
		return StateVolume{}, errors.Wrap(err, "cannot look for the node's state")
	}
	found, err := s.find(wish.UUID)
	if err != nil || found != nil {
		return s.described(found, false), err
	}
	made, err := s.make(ctx)
	return s.described(made, true), err
}

// stateFinder looks for the pool with the node's state.
type stateFinder struct {
	*opener
	wish StateWish
	// empty are disks with a pool of croft's on which nothing lies: one that was never finished.
	empty []PoolSpec
	// refused says why disks can't become the first pool.
	refused []string
}

// state is a pool with a state volume.
type state struct {
	pool         *pool
	label, image volume.Label
}

func (s *stateFinder) described(found *state, made bool) StateVolume {
	if found == nil {
		return StateVolume{}
	}
	p := found.pool
	return StateVolume{
		Pool: p.name, UUID: p.uuid, Disk: p.source, Path: p.states.Place(volume.StateName), Images: p.states.Place(volume.ImagesName),
		Size: found.label.Size, ImagesSize: found.image.Size, Made: made,
	}
}

// find returns the pool with the state, nil if there is none. Pools without one, which it has mounted, are unmounted again.
func (s *stateFinder) find(uuid string) (found *state, err error) {
	var all []*state
	for _, spec := range s.cfg.Pools {
		if spec.Disk == "" {
			continue
		}
		got, err := s.look(spec)
		if err != nil {
			s.refused = append(s.refused, err.Error())
			continue
		}
		if got != nil {
			all = append(all, got)
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	var others []string
	for _, one := range all {
		if one.pool.uuid == uuid || uuid == "" && len(all) == 1 {
			found = one
			continue
		}
		others = append(others, one.pool.source+" (pool "+one.pool.name+", UUID "+one.pool.uuid+")")
		err = errors.WithMessage(unmountBelow(one.pool.path), "cannot leave another node's disk alone")
	}
	if err == nil && found == nil {
		err = node.Errorf(node.Refused, "cannot choose the node's state: %s have one; take the others out, or name the UUID of the right one", strings.Join(others, " and "))
	}
	return found, err
}

// look looks for a state volume on a disk. It returns nil for a disk without one, which is as it was then.
func (s *stateFinder) look(spec PoolSpec) (*state, error) {
	device, err := filepath.EvalSymlinks(spec.Disk)
	if err != nil {
		return nil, errors.Wrap(err, "cannot find disk")
	}
	super, err := btrfs.ReadSuper(device)
	name, own := strings.CutPrefix(super.Label, blockdev.LabelPrefix)
	if errors.Is(err, node.NotExist) || err == nil && (!own || !validPoolName(name)) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p := s.newPool(name, spec)
	p.setDevice(device, false)
	p.uuid = super.UUID
	_, mounted, err := mountedAt(p.path)
	if err != nil {
		return nil, err
	}
	if !mounted {
		if err := mountPool(device, p.path); err != nil {
			return nil, errors.WithMessagef(err, "cannot look for the node's state on %s", spec.Disk)
		}
	}
	found, err := s.stateOf(p, spec)
	if found == nil && !mounted {
		err = withCause(err, unmountBelow(p.path))
	}
	return found, err
}

// withCause keeps the first of two errors.
func withCause(err, second error) error {
	if err != nil {
		return err
	}
	return second
}

// stateOf is the state volume of a mounted pool; nil for none.
func (s *stateFinder) stateOf(p *pool, spec PoolSpec) (*state, error) {
	f, err := p.open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	label, found, err := p.states.Label(volume.StateName)
	if err != nil {
		return nil, err
	}
	image, whole, err := p.states.Label(volume.ImagesName)
	if err != nil {
		return nil, err
	}
	if found && whole {
		return &state{p, label, image}, nil
	}
	nothing, err := emptyPool(p.path)
	if nothing {
		s.empty = append(s.empty, spec)
	} else if err == nil {
		s.refused = append(s.refused, "disk "+spec.Disk+" holds pool "+p.name+" of a node whose state isn't there")
	}
	return nil, err
}

// emptyPool reports whether nothing lies on a pool but the folders that Prepare makes, and what was never finished in them.
func emptyPool(path string) (bool, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return false, errors.Wrap(err, "cannot look at a pool")
	}
	for _, e := range entries {
		if e.Name() != "volumes" && e.Name() != "vdisks" && e.Name() != volume.StateFolder {
			return false, nil
		}
		inside, err := os.ReadDir(filepath.Join(path, e.Name()))
		if err != nil {
			return false, errors.Wrap(err, "cannot look at a pool")
		}
		for _, in := range inside {
			// The state comes last: without it nothing was ever written to the images.
			if e.Name() != volume.StateFolder || !volume.Unfinished(in.Name()) && in.Name() != volume.ImagesName {
				return false, nil
			}
		}
	}
	return true, nil
}

// make makes a state volume: on a pool that was never finished, or else on the first disk that may be formatted.
func (s *stateFinder) make(ctx context.Context) (*state, error) {
	for _, spec := range s.mayMake() {
		name, err := s.diskPool(ctx, spec)
		if err != nil {
			s.refused = append(s.refused, err.Error())
			continue
		}
		for _, p := range s.pools {
			if p.name == name && p.failed == nil {
				return s.create(p)
			}
		}
	}
	why := "there is no disk"
	if len(s.refused) > 0 {
		why = strings.Join(s.refused, "; ")
	}
	return nil, node.Errorf(node.NotExist, "cannot find or make the node's state: %s", why)
}

// mayMake are the disks on which a state may be made, those with an unfinished one first.
func (s *stateFinder) mayMake() []PoolSpec {
	var out []PoolSpec
	for _, spec := range slices.Concat(s.empty, s.cfg.Pools) {
		if spec.Disk != "" && slices.Contains(s.wish.Make, spec.Disk) && !s.holdsPool(spec) && !slices.Contains(out, spec) {
			out = append(out, spec)
		}
	}
	return out
}

// holdsPool reports whether a disk has a pool of croft's on which something lies: it is another node's, whatever the configuration says.
func (s *stateFinder) holdsPool(spec PoolSpec) bool {
	for _, e := range s.empty {
		if e.Disk == spec.Disk {
			return false
		}
	}
	device, err := filepath.EvalSymlinks(spec.Disk)
	if err != nil {
		return false
	}
	super, err := btrfs.ReadSuper(device)
	return err == nil && strings.HasPrefix(super.Label, blockdev.LabelPrefix)
}

// create makes the state volume on a pool.
func (s *stateFinder) create(p *pool) (*state, error) {
	f, err := p.open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	status, err := p.status()
	if err != nil {
		return nil, err
	}
	image := volume.Label{Name: volume.ImagesName, Size: imagesShare().of(status.Offered)}
	if err := s.ensure(f, p, image); err != nil {
		return nil, err
	}
	label := volume.Label{Name: volume.StateName, Size: stateShare().of(status.Offered)}
	if err := s.ensure(f, p, label); err != nil {
		return nil, err
	}
	if err := s.cfg.at("sync state volume"); err != nil {
		return nil, err
	}
	return &state{p, label, image}, errors.Wrap(syncPool(p.path), "cannot make the node's state durable")
}

// ensure makes a volume of the node's own that isn't there.
func (s *stateFinder) ensure(f *btrfs.FS, p *pool, l volume.Label) error {
	if _, found, err := p.states.Label(l.Name); err != nil || found {
		return err
	}
	return p.states.Create(f, l)
}

func syncPool(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}

// showsState reports whether a mount shows a volume of the node's own, or a part of it: the node's folders are bound to these.
func showsState(m mounts.Mount) bool { return strings.HasPrefix(m.Root, "/"+volume.StateFolder+"/") }
