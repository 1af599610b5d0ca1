package storage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/storage/bytesize"
	"github.com/croft-edge/croft/modules/storage/volume"
	"github.com/croft-edge/croft/pkg/btrfs"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// TestPoolIsChosen wants the pool that was named, and nothing in its place.
func TestPoolIsChosen(t *testing.T) {
	cfg := newConfig(t)
	cfg.Pools = append(cfg.Pools, PoolSpec{Name: "fast", Type: workload.SSD, LoopSize: 2 * poolSize})
	m := opened(t, cfg)
	spec := node.FilesystemSpec{Name: "7-1", Size: 32 * mib, DiskType: workload.SSD, Pool: "ssd0"}
	if f, err := m.Storage().CreateFilesystem(spec); err != nil || f.Pool != "ssd0" {
		t.Errorf("created %+v (%v), though ssd0 was asked for", f, err)
	}
	spec.Pool = "fast"
	if _, err := m.Storage().CreateFilesystem(spec); !errors.Is(err, node.Exist) {
		t.Errorf("asking for it on the other pool gives %v", err)
	}
	if f := create(t, m, "7-2", 32*mib); f.Pool != "fast" {
		t.Errorf("without a pool it lies on %s, the other has more room", f.Pool)
	}
	// Only fast has that much.
	spec = node.FilesystemSpec{Name: "7-3", Size: poolSize, DiskType: workload.SSD, Pool: "ssd0"}
	_, err := m.Storage().CreateFilesystem(spec)
	if want := "cannot create filesystem 7-3: needs 512 MiB, free are 366.2 MiB on pool ssd0"; !errors.Is(err, node.NoSpace) || err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
	spec.Pool = ""
	if f, err := m.Storage().CreateFilesystem(spec); err != nil || f.Pool != "fast" {
		t.Errorf("created %+v (%v)", f, err)
	}
}

// TestPoolIsBroken wants a file system for a broken pool to wait for it, though
// another has room.
func TestPoolIsBroken(t *testing.T) {
	cfg := newConfig(t)
	cfg.Pools = append(cfg.Pools, PoolSpec{Name: "fast", Type: workload.SSD, LoopSize: poolSize})
	m := opened(t, cfg)
	kill(t, m)
	check(t, Detach(t.Context(), m.cfg))
	check(t, os.Remove(m.cfg.image("fast")))
	for _, pools := range [][]PoolSpec{cfg.Pools, DefaultPools(poolSize)} {
		cfg.Pools = pools
		m = opened(t, cfg)
		spec := node.FilesystemSpec{Name: "7-1", Size: 32 * mib, DiskType: workload.SSD, Pool: "fast"}
		if _, err := m.Storage().CreateFilesystem(spec); !errors.Is(err, node.Transient) {
			t.Errorf("with pools %+v creating gives %v", pools, err)
		}
		kill(t, m)
	}
}

// TestResizeFails wants a resize that meets an error to leave everything as it was.
func TestResizeFails(t *testing.T) {
	broken := errors.New("no more")
	for _, c := range []struct {
		size  uint64
		steps []string
	}{
		{64 * mib, []string{"raise limit", "relabel filesystem"}},
		{16 * mib, []string{"relabel filesystem", "lower limit"}},
	} {
		for at, step := range c.steps {
			t.Run(fmt.Sprintf("%s at %q", bytesize.Format(c.size), step), func(t *testing.T) {
				cfg, armed, met := newConfig(t), false, []string{}
				cfg.hook = func(name string) error {
					if !armed {
						return nil
					}
					if met = append(met, name); len(met) == at+1 {
						return broken
					}
					return nil
				}
				m := opened(t, cfg)
				create(t, m, "7-1", 32*mib)
				armed = true
				if _, err := m.Storage().ResizeFilesystem("7-1", c.size); !errors.Is(err, broken) || met[at] != step {
					t.Errorf("after the steps %q the error is %v", met, err)
				}
				armed = false
				if got := m.status().Pools[0].Reserved; got != 32*mib {
					t.Errorf("reserved are %s", bytesize.Format(got))
				}
				wantWhole(t, m)
				_, err := m.Storage().ResizeFilesystem("7-1", c.size)
				check(t, err)
				wantWhole(t, m)
			})
		}
	}
}

// TestResizedAndPowerCut wants what a resize promised to be on the disk, though
// nothing else made it commit.
func TestResizedAndPowerCut(t *testing.T) {
	for _, quota := range quotaKinds(t) {
		t.Run(string(quota), func(t *testing.T) {
			cfg := newConfig(t)
			cfg.Quota = quota
			m := opened(t, cfg)
			grown, shrunk := create(t, m, "7-1", 32*mib), create(t, m, "7-2", 64*mib)
			write(t, grown.Path, "grown")
			write(t, shrunk.Path, "shrunk")
			f, err := m.pools[0].open()
			check(t, err)
			check(t, f.Sync())
			check(t, f.Close())
			_, err = m.Storage().ResizeFilesystem("7-2", 16*mib)
			check(t, err)
			_, err = m.Storage().ResizeFilesystem("7-1", 80*mib)
			check(t, err)
			image := m.cfg.image("ssd0")
			_, err = command(t.Context(), "cp", "--sparse=always", image, image+".copy")
			check(t, err)
			kill(t, m)
			check(t, Detach(t.Context(), m.cfg))
			check(t, os.Rename(image+".copy", image))
			m = opened(t, m.cfg)
			for name, want := range map[string]uint64{"7-1": 80 * mib, "7-2": 16 * mib} {
				if f, err := m.Storage().InspectFilesystem(name); err != nil || f.Size != want {
					t.Errorf("after a power cut %s is %+v (%v)", name, f, err)
				}
			}
			wantData(t, grown.Path, "grown")
			wantData(t, shrunk.Path, "shrunk")
			wantWhole(t, m)
		})
	}
}

// TestResizedUnderWrites changes the size of one that is written to all the time.
func TestResizedUnderWrites(t *testing.T) {
	m := opened(t, newConfig(t))
	f := create(t, m, "7-1", 32*mib)
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			if _, err := fill(filepath.Join(f.Path, "data"), 8*mib); err != nil {
				done <- err
				return
			}
		}
	}()
	for range 5 {
		for _, size := range []uint64{96 * mib, 40 * mib, 32 * mib} {
			// Rewritten data counts twice until a commit.
			if _, err := m.Storage().ResizeFilesystem("7-1", size); err != nil && !errors.Is(err, node.Busy) {
				t.Errorf("resizing to %s gives %v", bytesize.Format(size), err)
			}
		}
	}
	close(stop)
	if err := <-done; err != nil && !errors.Is(err, unix.EDQUOT) {
		t.Errorf("the writer met %v", err)
	}
	check(t, os.Remove(filepath.Join(f.Path, "data")))
	wantWhole(t, m)
}

// TestResizeWhileCounting wants no volume to shrink by a count that isn't right.
func TestResizeWhileCounting(t *testing.T) {
	cfg := newConfig(t)
	cfg.Quota = volume.Qgroup
	m := opened(t, cfg)
	a, b := create(t, m, "7-1", 64*mib), create(t, m, "7-2", 64*mib)
	if _, err := fill(filepath.Join(a.Path, "data"), 8*mib); err != nil {
		t.Fatal(err)
	}
	_, err := command(t.Context(), "cp", "--reflink=always", filepath.Join(a.Path, "data"), b.Path)
	check(t, err)
	// Shared data can't just be added to a group above: that needs a rescan.
	f := fsOf(t, m)
	check(t, f.Sync())
	id, err := btrfs.SubvolumeID(a.Path)
	check(t, err)
	check(t, f.CreateGroup(btrfs.GroupID(1, 999)))
	check(t, f.Join(id, btrfs.GroupID(1, 999)))
	if _, err = m.Storage().ResizeFilesystem("7-1", 32*mib); !errors.Is(err, node.Transient) {
		t.Errorf("resizing gives %v", err)
	}
	_, err = command(t.Context(), "btrfs", "quota", "rescan", "-w", m.pools[0].path)
	check(t, err)
	_, err = m.Storage().ResizeFilesystem("7-1", 32*mib)
	check(t, err)
}
