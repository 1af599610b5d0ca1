package storage

import (
	"context"
	"os"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/modules/storage/blockdev"
	"github.com/croft-edge/croft/modules/storage/bytesize"
	"github.com/croft-edge/croft/modules/storage/volume"
	"github.com/croft-edge/croft/pkg/btrfs"
	"github.com/croft-edge/croft/pkg/loop"
	"github.com/croft-edge/croft/pkg/node"
)

// opener makes and adopts pools.
type opener struct {
	cfg     Config
	marks   map[string]mark
	pools   []*pool
	devices []node.BrokenDevice
}

// openPools opens every pool that it can; the others are in the result, as broken.
// An error is only for a fault that stops all.
func openPools(ctx context.Context, cfg Config) (*opener, error) {
	marks, err := cfg.readMarks()
	if err != nil {
		return nil, err
	}
	o := &opener{cfg: cfg, marks: marks}
	for _, spec := range cfg.Pools {
		if err := ctx.Err(); err != nil {
			return nil, node.WithKind(node.Transient, errors.Wrap(err, "cannot open storage"))
		}
		if spec.Disk == "" {
			o.openLoop(ctx, spec)
		} else {
			o.openDisk(ctx, spec)
		}
	}
	o.reportForgotten()
	return o, nil
}

// reportForgotten reports the pools that were made here and that the configuration
// doesn't name any more: their content is out of reach.
func (o *opener) reportForgotten() {
	for name := range o.marks {
		if !o.has(name) {
			o.fail(o.newPool(name, PoolSpec{}), errors.New("it was made here, but the configuration doesn't name it any more"))
		}
	}
}

func (o *opener) has(name string) bool {
	for _, p := range o.pools {
		if p.name == name {
			return true
		}
	}
	return false
}

func (o *opener) newPool(name string, spec PoolSpec) *pool {
	at := volume.Pool{Name: name, Path: o.cfg.mount(name), Index: o.cfg.indexOf(name), Step: o.cfg.at}
	return &pool{
		name: name, diskType: spec.Type,
		mount:       &mount{pool: name, path: at.Path, source: spec.Disk},
		filesystems: volume.NewFilesystems(at, o.cfg.Log), disks: volume.NewDisks(at, o.cfg.Log), state: volume.NewState(at, o.cfg.Log), log: o.cfg.Log,
	}
}

// fail keeps p as broken.
func (o *opener) fail(p *pool, cause error) {
	o.cfg.Log.Error().Err(cause).Str("pool", p.name).Msg("a pool is broken")
	p.failed = cause
	o.pools = append(o.pools, p)
}

// keep keeps p, as broken when there is an error.
func (o *opener) keep(p *pool, err error) {
	if err != nil {
		o.fail(p, err)
		return
	}
	device, _ := p.mountedFrom()
	ready := o.cfg.Log.Info().Str("pool", p.name).Str("device", device).Str("quota", string(p.filesystems.Quota()))
	if p.source == "" {
		ready.Bool("direct", loop.Direct(device))
	}
	ready.Msg("a pool is ready")
	if s, err := p.status(); err == nil && s.Reserved > s.Offered {
		o.cfg.Log.Warn().Str("pool", p.name).Str("promised", bytesize.Format(s.Reserved)).Str("kept", bytesize.Format(s.Offered)).
			Msg("the promised sizes exceed the pool's space: nothing new is put there")
	}
	o.pools = append(o.pools, p)
}

func (o *opener) openLoop(ctx context.Context, spec PoolSpec) {
	p := o.newPool(spec.Name, spec)
	o.keep(p, o.loopPool(ctx, p, spec))
}

func (o *opener) loopPool(ctx context.Context, p *pool, spec PoolSpec) error {
	image := o.cfg.image(spec.Name)
	_, marked := o.marks[spec.Name]
	_, err := os.Lstat(image)
	switch {
	case errors.Is(err, os.ErrNotExist) && marked:
		return errors.Errorf("its image %s is missing", image)
	case errors.Is(err, os.ErrNotExist):
		if err := o.cfg.makeImage(ctx, spec); err != nil {
			return err
		}
	case err != nil:
		return errors.Wrap(err, "cannot find its image")
	}
	super, err := o.identify(p.name, image)
	if err != nil {
		return err
	}
	device, err := loop.Attach(ctx, image)
	if err != nil {
		return err
	}
	// Once it is mounted the mount holds the device.
	defer device.Close()
	p.setDevice(device.Path(), false)
	if err := o.adopt(p, super); err != nil {
		return err
	}
	return o.mark(mark{Name: p.name, UUID: super.UUID})
}

// identify checks that a device or image holds the pool of that name, and no other.
func (o *opener) identify(name, device string) (btrfs.Super, error) {
	super, err := btrfs.ReadSuper(device)
	if err != nil {
		return super, err
	}
	if super.Label != blockdev.LabelPrefix+name {
		return super, errors.Errorf("%s holds a btrfs with label %q, not %q", device, super.Label, blockdev.LabelPrefix+name)
	}
	m, marked := o.marks[name]
	if marked && m.UUID != super.UUID {
		return super, errors.Errorf("%s holds a btrfs with UUID %s, not the %q that was made here", device, super.UUID, m.UUID)
	}
	return super, nil
}

// adopt mounts the pool, unless it is mounted, and prepares its content.
func (o *opener) adopt(p *pool, super btrfs.Super) error {
	return o.attached(p, super, func(f *btrfs.FS) error { return volume.Prepare(f, p.all(), o.cfg.Quota) })
}

// attached mounts the pool, unless it is mounted, and calls do if it can be written to.
func (o *opener) attached(p *pool, super btrfs.Super, do func(f *btrfs.FS) error) error {
	_, mounted, err := mountedAt(p.path)
	if err != nil {
		return err
	}
	if mounted {
		err = secure(p.path)
	} else {
		device, _ := p.mountedFrom()
		err = mountPool(device, p.path)
	}
	if err != nil {
		return err
	}
	p.uuid = super.UUID
	f, err := p.open()
	if err != nil {
		return err
	}
	defer f.Close()
	if err := p.health(); err != nil {
		return err
	}
	return do(f)
}

func (o *opener) mark(m mark) error {
	if _, marked := o.marks[m.Name]; marked {
		return nil
	}
	if err := o.cfg.at("mark pool"); err != nil {
		return err
	}
	o.marks[m.Name] = m
	return o.cfg.writeMark(m)
}
