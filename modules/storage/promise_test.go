package storage

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/storage/volume"
	"github.com/croft-edge/croft/pkg/saturate"
)

// earlierPool makes the image of a pool as earlier versions did: data and metadata
// apart, and metadata twice.
func earlierPool(t *testing.T, cfg Config, size uint64) {
	t.Helper()
	check(t, os.MkdirAll(cfg.poolsDir(), 0o700))
	check(t, sparseFile(cfg.image("ssd0"), size))
	_, err := command(t.Context(), "mkfs.btrfs", "-q", "-m", "dup", "-d", "single", "-L", "croft-ssd0", cfg.image("ssd0"))
	check(t, err)
}

// TestPromisesAreKeptInAnyMix fills all that a pool promises with all that takes
// room in some way of its own, then frees most of it so that no group of blocks
// comes free, and fills it in other ways: each volume must end at its own limit,
// never at the pool's end, and have all that it was promised.
func TestPromisesAreKeptInAnyMix(t *testing.T) {
	kinds := quotaKinds(t)
	for _, c := range []struct {
		quota   volume.Quota
		earlier bool
		size    uint64
		seed    uint64
	}{
		{kinds[0], false, 256 * mib, 0},
		{kinds[0], false, 256 * mib, 1},
		{kinds[0], true, 512 * mib, 0},
		{volume.Qgroup, false, 256 * mib, 2},
	} {
		t.Run(fmt.Sprintf("%s/earlier %t/%d", c.quota, c.earlier, c.seed), func(t *testing.T) {
			t.Parallel()
			cfg := newConfig(t)
			cfg.Quota, cfg.Pools = c.quota, DefaultPools(c.size)
			if c.earlier {
				earlierPool(t, cfg, c.size)
			}
			keepPromises(t, opened(t, cfg), c.seed)
		})
	}
}

// lastBytes is what of a volume may stay unwritten: the quota holds back the leaves
// that the next change could take, of 16 KiB at most.
const lastBytes = 128 * kib

func keepPromises(t *testing.T, m *Module, seed uint64) {
	const volumes = 2
	size := m.status().Pools[0].Offered / volumes
	var tenants []*tenant
	for i := range volumes {
		path := create(t, m, fmt.Sprintf("7-%d", i+1), size).Path
		tenants = append(tenants, newTenant(t, path, seed*volumes+uint64(i)))
	}
	// The worst for pools of earlier versions: all of it data, then metadata.
	first := func(w *tenant) error { return w.fill(w.blocks) }
	then := func(w *tenant) error { return w.fill(w.inline, w.attributes) }
	if seed > 0 {
		first, then = (*tenant).mix, (*tenant).mix
	}
	for i, fill := range []func(*tenant) error{first, then, (*tenant).top} {
		if i == 1 {
			for _, w := range tenants {
				check(t, w.scatter())
			}
		}
		for i, w := range tenants {
			if err := fill(w); !errors.Is(err, unix.EDQUOT) {
				t.Fatalf("tenant %d can't write what it was promised: %v", i+1, err)
			}
		}
		commit(t, m)
	}
	wantFull(t, m, size)
}

// wantFull wants each volume to have its size, and btrfs' own data, with
// the space set aside to rewrite it, to be within the share kept for it.
func wantFull(t *testing.T, m *Module, size uint64) {
	t.Helper()
	all, err := m.Storage().ListFilesystems()
	check(t, err)
	var counted uint64
	for _, one := range all {
		fs, err := m.Storage().InspectFilesystem(one.Name)
		check(t, err)
		if fs.Used+lastBytes < size {
			t.Errorf("%s has %d of %d bytes", fs.Name, fs.Used, size)
		}
		counted += fs.Used
	}
	space, err := m.pools[0].space()
	check(t, err)
	beside := saturate.Sub(space.Used, counted)
	t.Logf("%d bytes are promised, %d are written, %d beside them", m.status().Pools[0].Reserved, counted, beside)
	if space.Layout.Mixed && beside > 2*counted/uncounted+slack/8 {
		t.Errorf("%d bytes are written beside %d", beside, counted)
	}
}

func commit(t *testing.T, m *Module) {
	t.Helper()
	check(t, fsOf(t, m).Sync())
}
