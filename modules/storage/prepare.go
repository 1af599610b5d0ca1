package storage

import (
	stderrors "errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/croft-edge/croft/modules/storage/btrfs"
	"github.com/croft-edge/croft/pkg/node"
)

// prepare sets right what is inside a mounted pool: the folders, the quotas,
// what was half made or half removed, the limits, the index.
func (p *pool) prepare(f *btrfs.FS, cfg Config) error {
	if err := p.makeFolders(); err != nil {
		return err
	}
	volumes, err := p.labels(filesystems())
	if err != nil {
		return err
	}
	if p.quota, err = ensureQuota(f, cfg.Quota, len(volumes) > 0); err != nil {
		return err
	}
	if err := p.clearTemporaries(f); err != nil {
		return err
	}
	if err := p.ensureLimits(f, volumes); err != nil {
		return err
	}
	if _, _, err := p.sweepGroups(f, 0); err != nil {
		return err
	}
	disks, err := p.labels(vdisks())
	if err != nil {
		return err
	}
	if missing := p.index.others(filesystems(), volumes); len(missing) > 0 {
		p.log.Warn().Str("pool", p.name).Strs("names", missing).Msg("filesystems were noted and aren't on the pool: never finished, not written before a power cut, or removed by somebody else")
	}
	if err := p.index.set(filesystems(), volumes); err != nil {
		return err
	}
	return p.index.set(vdisks(), disks)
}

func (p *pool) makeFolders() error {
	volumes := p.folder(filesystems())
	if err := os.Mkdir(volumes, 0o711); err != nil && !stderrors.Is(err, os.ErrExist) {
		return btrfs.Wrap(err, "cannot make %s", volumes)
	}
	disks := p.folder(vdisks())
	// Disks lie in a subvolume of their own, so that a snapshot of the pool
	// doesn't make each write to them a copy.
	if err := btrfs.CreateSubvolume(p.path, vdisks().folder); err != nil && !stderrors.Is(err, node.Exist) {
		return err
	}
	return btrfs.Wrap(os.Chmod(disks, 0o711), "cannot make %s", disks)
}

// clearTemporaries removes what was half made or half removed.
func (p *pool) clearTemporaries(f *btrfs.FS) error {
	for _, k := range []kind{filesystems(), vdisks()} {
		entries, err := os.ReadDir(p.folder(k))
		if err != nil {
			return btrfs.Wrap(err, "cannot list the %ss of pool %s", k.what, p.name)
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), newPrefix) && !strings.HasPrefix(e.Name(), gonePrefix) {
				continue
			}
			if err := p.clear(f, k, e.Name()); err != nil {
				return err
			}
		}
	}
	return nil
}

// clear removes the temporary of that name.
func (p *pool) clear(f *btrfs.FS, k kind, name string) error {
	path := filepath.Join(p.folder(k), name)
	if k == vdisks() {
		return btrfs.Wrap(os.Remove(path), "cannot clear away %s", path)
	}
	return p.destroy(f, path)
}
