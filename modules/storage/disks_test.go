package storage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/storage/bytesize"
	"github.com/croft-edge/croft/modules/storage/volume"
	"github.com/croft-edge/croft/pkg/btrfs"
	"github.com/croft-edge/croft/pkg/node"
)

// guest writes to a disk as the virtual machine that owns it: without the machine's page
// cache, which would make one extent of neighbouring blocks.
type guest struct {
	file *os.File
	size int64
	r    *rand.Rand
	// data is a MiB at the start of a page.
	data []byte
}

func newGuest(t *testing.T, d node.VDisk, seed uint64) *guest {
	t.Helper()
	f, err := os.OpenFile(d.Path, os.O_RDWR|unix.O_DIRECT, 0)
	check(t, err)
	t.Cleanup(func() { f.Close() })
	data, err := unix.Mmap(-1, 0, int(mib), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	check(t, err)
	t.Cleanup(func() { check(t, unix.Munmap(data)) })
	return &guest{file: f, size: int64(d.Size), r: rand.New(rand.NewPCG(seed, 8)), data: data}
}

// scatter writes each block of the disk by itself, in random order, by some writers at once.
func (g *guest) scatter(writers int) error {
	order := g.r.Perm(int(g.size / block))
	errs := make([]error, writers)
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := w; i < len(order) && errs[w] == nil; i += writers {
				if _, errs[w] = g.file.WriteAt(g.data[:block], int64(order[i])*block); errs[w] == nil && i%4096 == 0 {
					errs[w] = g.file.Sync()
				}
			}
		})
	}
	group.Wait()
	return errors.Join(append(errs, g.file.Sync())...)
}

func (g *guest) discard(at, size int64) error {
	return unix.Fallocate(int(g.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, at, size)
}

// zero makes a part of the disk zeros without writing them.
func (g *guest) zero(at, size int64) error {
	return unix.Fallocate(int(g.file.Fd()), unix.FALLOC_FL_ZERO_RANGE|unix.FALLOC_FL_KEEP_SIZE, at, size)
}

// usedBy is a disk's use after a commit.
func usedBy(t *testing.T, m *Module, name string) uint64 {
	t.Helper()
	commit(t, m)
	d, err := m.VDisks().Inspect(name)
	check(t, err)
	return d.Used
}

// TestDisksKeepTheirPromise fills a pool with volumes and a disk, and writes each block of the
// disk by itself, over and over, and after its space was given back: that must never fail. It
// logs what the disk takes beside its size.
func TestDisksKeepTheirPromise(t *testing.T) {
	kinds := quotaKinds(t)
	for _, c := range []struct {
		quota   volume.Quota
		earlier bool
	}{{kinds[0], false}, {volume.Qgroup, false}, {kinds[0], true}} {
		t.Run(fmt.Sprintf("%s/earlier %t", c.quota, c.earlier), func(t *testing.T) {
			cfg := newConfig(t)
			cfg.Quota = c.quota
			if c.earlier {
				earlierPool(t, cfg, poolSize)
			}
			m := opened(t, cfg)
			d := allocate(t, m, "8-1", 24*mib)
			status := m.status().Pools[0]
			rest := create(t, m, "7-1", status.Offered-status.Reserved)
			neighbour := newTenant(t, rest.Path, 3)
			if err := neighbour.mix(); !errors.Is(err, unix.EDQUOT) {
				t.Fatalf("filling the neighbour gives %v", err)
			}
			g := newGuest(t, d, 1)
			rewrite := func(what string) {
				t.Helper()
				if err := g.scatter(4); err != nil {
					t.Fatalf("%s fails: %v", what, err)
				}
				used := usedBy(t, m, "8-1")
				t.Logf("%s: %d bytes beside the %d of the image", what, used-d.Size, d.Size)
				if limit := volume.DiskRoom(d.Size); used > limit-mib {
					t.Errorf("%s takes %d bytes of %d", what, used, limit)
				}
			}
			rewrite("writing")
			before := usedBy(t, m, "8-1")
			rewrite("writing again")
			if after := usedBy(t, m, "8-1"); after > before+mib {
				t.Errorf("used were %d bytes, after writing it over %d", before, after)
			}
			// Every block is an extent now, so each comes free by itself.
			for at := int64(0); at < g.size; at += 2 * block {
				check(t, g.discard(at, block))
			}
			if after := usedBy(t, m, "8-1"); after > before-d.Size/2+mib {
				t.Errorf("used were %d bytes, when half is discarded %d", before, after)
			}
			rewrite("writing what was discarded")
			check(t, g.discard(0, g.size))
			if after := usedBy(t, m, "8-1"); after > mib {
				t.Errorf("when all is discarded, used are %d bytes", after)
			}
			if err := neighbour.top(); !errors.Is(err, unix.EDQUOT) {
				t.Errorf("the neighbour meets %v", err)
			}
			rewrite("writing when all was discarded")
			check(t, m.VDisks().Deallocate("8-1"))
		})
	}
}

// TestPartsOfAnExtentDontComeFree shows the limit of discarding, and of zeroing: btrfs keeps an extent while a
// block of it is in use, and what is written into the holes counts beside it. The disk ends at
// its own limit, not at its neighbours' expense, and keeps its data.
func TestPartsOfAnExtentDontComeFree(t *testing.T) {
	for name, clears := range map[string]func(g *guest, at, size int64) error{"discard": (*guest).discard, "zero": (*guest).zero} {
		t.Run(name, func(t *testing.T) { partsDontComeFree(t, clears) })
	}
}

func partsDontComeFree(t *testing.T, clears func(g *guest, at, size int64) error) {
	m := opened(t, newConfig(t))
	d := allocate(t, m, "8-1", 32*mib)
	g := newGuest(t, d, 1)
	var err error
	for round := int64(0); round < 8 && err == nil; round++ {
		for at := int64(0); at < g.size && err == nil; at += int64(mib) {
			if _, err = g.file.WriteAt(g.data, at); err == nil {
				err = g.file.Sync()
			}
			if err == nil {
				err = clears(g, at+(round+1)*block, int64(mib)-(round+1)*block)
			}
		}
	}
	// With direct I/O the kernel says ENOSPC.
	if !errors.Is(err, unix.EDQUOT) && !errors.Is(err, unix.ENOSPC) {
		t.Errorf("writing over extents of which parts are in use gives %v", err)
	}
	if used, limit := usedBy(t, m, "8-1"), volume.DiskRoom(d.Size); used > limit {
		t.Errorf("it uses %d of %d bytes", used, limit)
	}
	// Even a discard needs some room, so a disk that has ended up here must be made larger.
	allocate(t, m, "8-1", 36*mib)
	check(t, g.discard(0, g.size))
	if used := usedBy(t, m, "8-1"); used > mib {
		t.Errorf("when all is discarded, used are %d bytes", used)
	}
	check(t, g.scatter(1))
}

// TestLargeDisks wants a disk to take neither time nor space when it is made or grown.
func TestLargeDisks(t *testing.T) {
	cfg := newConfig(t)
	cfg.Pools = DefaultPools(16 * gib)
	m := opened(t, cfg)
	begin := time.Now()
	allocate(t, m, "8-1", 8*gib)
	d := allocate(t, m, "8-1", 12*gib)
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
	if used := usedBy(t, m, "8-1"); used > 64*kib {
		t.Errorf("a new disk of %s uses %s", bytesize.Format(d.Size), bytesize.Format(used))
	}
	var stat unix.Stat_t
	check(t, unix.Stat(d.Path, &stat))
	if stat.Size != int64(d.Size) || stat.Blocks != 0 {
		t.Errorf("its image has %d bytes in %d blocks", stat.Size, stat.Blocks)
	}
}

// TestGrowFails wants growing that meets an error to end in the same state when it is repeated,
// and the data to stay.
func TestGrowFails(t *testing.T) {
	broken := errors.New("no more")
	for at, step := range []string{"raise limit", "relabel vdisk", "extend image of vdisk"} {
		t.Run(step, func(t *testing.T) {
			cfg, armed, met := newConfig(t), false, []string{}
			cfg.hook = func(name string) error {
				if armed {
					met = append(met, name)
				}
				if armed && len(met) == at+1 {
					return broken
				}
				return nil
			}
			m := opened(t, cfg)
			d := allocate(t, m, "8-1", 16*mib)
			check(t, stamp(d.Path, 5*mib))
			armed = true
			if _, err := m.VDisks().Allocate(diskSpec("8-1", 32*mib)); !errors.Is(err, broken) || met[at] != step {
				t.Errorf("after the steps %q the error is %v", met, err)
			}
			armed = false
			if at < 2 {
				wantWholeDisks(t, m)
			}
			grown := allocate(t, m, "8-1", 32*mib)
			if grown.Size != 32*mib || m.status().Pools[0].Reserved != volume.DiskRoom(32*mib) {
				t.Errorf("grown it is %+v", grown)
			}
			check(t, wantStamp(d.Path, 5*mib))
			wantWholeDisks(t, m)
		})
	}
}

// TestDiskWithoutImage wants a disk whose image somebody has removed not to be made anew, and its
// pool to stay in use.
func TestDiskWithoutImage(t *testing.T) {
	m := opened(t, newConfig(t))
	d := allocate(t, m, "8-1", 16*mib)
	check(t, os.Remove(d.Path))
	for range 2 {
		if _, err := m.VDisks().Allocate(diskSpec("8-1", 16*mib)); !errors.Is(err, node.Transient) {
			t.Errorf("allocating gives %v", err)
		}
		if left := folderNames(t, filepath.Dir(d.Path)); len(left) != 0 {
			t.Errorf("there is %q", left)
		}
		m = reopen(t, m)
	}
	check(t, m.VDisks().Deallocate("8-1"))
	allocate(t, m, "8-1", 16*mib)
}

// TestDisksWriteInPlace wants a disk's blocks to be written where they are: a
// copy would need room that isn't there.
func TestDisksWriteInPlace(t *testing.T) {
	m := opened(t, newConfig(t))
	d := allocate(t, m, "8-1", 16*mib)
	g := newGuest(t, d, 1)
	flags, err := unix.IoctlGetInt(int(g.file.Fd()), unix.FS_IOC_GETFLAGS)
	check(t, err)
	if flags&0x00800000 == 0 {
		t.Errorf("its flags are %#x", flags)
	}
	if id, err := btrfs.SubvolumeID(filepath.Dir(d.Path)); err != nil || id == 0 {
		t.Errorf("it has no subvolume of its own: %v", err)
	}
}
