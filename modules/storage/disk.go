package storage

import (
	"context"
	"crypto/rand"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/modules/storage/blockdev"
	"github.com/croft-edge/croft/modules/storage/volume"
	"github.com/croft-edge/croft/pkg/btrfs"
	"github.com/croft-edge/croft/pkg/node"
)

// openDisk opens the pool on a whole disk. An unusable disk is reported as a
// broken device, and as a broken pool too when one was made there.
func (o *opener) openDisk(ctx context.Context, spec PoolSpec) {
	name, err := o.diskPool(ctx, spec)
	if err == nil {
		return
	}
	o.devices = append(o.devices, node.BrokenDevice{Path: spec.Disk, Cause: err.Error()})
	o.cfg.Log.Error().Err(err).Str("device", spec.Disk).Msg("cannot use a disk")
	if name == "" {
		name = o.markedOn(spec.Disk)
	}
	if name != "" && !o.has(name) {
		o.fail(o.newPool(name, spec), err)
	}
}

// markedOn is the name of the pool that was made on the disk of that path.
func (o *opener) markedOn(disk string) string {
	for name, m := range o.marks {
		if m.Disk == disk {
			return name
		}
	}
	return ""
}

// diskPool opens the pool on a disk. It returns its name as soon as it is known.
func (o *opener) diskPool(ctx context.Context, spec PoolSpec) (string, error) {
	device, err := filepath.EvalSymlinks(spec.Disk)
	if err != nil {
		return "", errors.Wrap(err, "cannot find disk")
	}
	if spec.Type == "" {
		if spec.Type, err = blockdev.Type(device); err != nil {
			return "", err
		}
	}
	super, err := btrfs.ReadSuper(device)
	own, isOwn := strings.CutPrefix(super.Label, blockdev.LabelPrefix)
	if err != nil && !errors.Is(err, node.NotExist) {
		return "", err
	}
	if err != nil || !isOwn {
		if own, err = o.format(ctx, device, spec); err != nil {
			return "", err
		}
	}
	return o.adoptDisk(own, device, spec)
}

// adoptDisk takes into use a disk that holds the pool of that name.
func (o *opener) adoptDisk(name, device string, spec PoolSpec) (string, error) {
	switch {
	case !validPoolName(name):
		return "", node.Errorf(node.Refused, "cannot use disk %s: its pool is named %q", spec.Disk, name)
	case spec.Name != "" && spec.Name != name:
		return "", node.Errorf(node.Refused, "cannot use disk %s: it holds pool %s, not %s", spec.Disk, name, spec.Name)
	case o.has(name) || o.isLoop(name):
		return "", node.Errorf(node.Refused, "cannot use disk %s: there is another pool %s", spec.Disk, name)
	}
	super, err := o.identify(name, device)
	if err != nil {
		return name, err
	}
	p := o.newPool(name, spec)
	p.setDevice(device, false)
	if err := blockdev.CheckElsewhere(device, p.path, volume.StateRoot); err != nil {
		return name, err
	}
	if err := o.adopt(p, super); err != nil {
		return name, err
	}
	if err := o.mark(mark{Name: name, UUID: super.UUID, Disk: spec.Disk}); err != nil {
		return name, err
	}
	o.keep(p, nil)
	return name, nil
}

func (o *opener) isLoop(name string) bool {
	return slices.ContainsFunc(o.cfg.Pools, func(s PoolSpec) bool { return s.Disk == "" && s.Name == name })
}

// format makes a pool on a disk and returns its name. Refused when anything is
// on it, unless the operator named it for wiping; and when a pool was made on
// it before, whatever the operator says: a damaged one may still be saved.
func (o *opener) format(ctx context.Context, device string, spec PoolSpec) (string, error) {
	if name := o.markedOn(spec.Disk); name != "" {
		return "", node.Errorf(node.Refused, "cannot use disk %s: pool %s was made on it and isn't found there any more; it is not formatted again while %s exists", spec.Disk, name, o.cfg.markOf(name))
	}
	found, err := blockdev.Probe(ctx, device)
	if err != nil {
		return "", err
	}
	wipe := slices.Contains(o.cfg.WipeDisks, spec.Disk)
	if half, err := btrfs.ReadUnfinished(device); err == nil && strings.HasPrefix(half.Label, blockdev.LabelPrefix) {
		found, wipe = "", true // a crash has ended its formatting, before anything was on it
	}
	if found != "" && !wipe {
		return "", node.Errorf(node.Refused, "cannot use disk %s: it holds %s; name it with --wipe-disk to erase it", spec.Disk, found)
	}
	name := spec.Name
	if name == "" {
		name = strings.ToLower(string(spec.Type) + "-" + rand.Text()[:8])
	}
	if err := o.cfg.at("format disk"); err != nil {
		return "", err
	}
	if found != "" {
		o.cfg.Log.Warn().Str("device", spec.Disk).Str("found", found).Msg("erasing a disk that --wipe-disk names")
		if err := blockdev.Erase(ctx, device); err != nil {
			return "", errors.Wrapf(err, "cannot erase disk %s", spec.Disk)
		}
	}
	return name, blockdev.Format(ctx, device, name, wipe)
}
