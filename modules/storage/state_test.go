package storage

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/storage/nodestate"
	"github.com/croft-edge/croft/modules/storage/volume"
	"github.com/croft-edge/croft/pkg/btrfs"
	"github.com/croft-edge/croft/pkg/loop"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// making allows a first pool to be made.
func making() StateSpec { return StateSpec{Want: nodestate.Want{Make: true}} }

func onDisks(disks ...string) (out []PoolSpec) {
	for _, d := range disks {
		out = append(out, PoolSpec{Disk: d, Type: workload.SSD})
	}
	return out
}

// machine has empty disks. What a node of it mounts, and its disks, go with the test.
func machine(t *testing.T, count int) (cfg Config, disks []string) {
	t.Helper()
	cfg = newConfig(t)
	cfg.Mounts = filepath.Join(cfg.State, "run")
	for i := range count {
		path := filepath.Join(cfg.State, "disk"+string(rune('a'+i)))
		check(t, sparseFile(path, poolSize))
		d, err := loop.Attach(t.Context(), path)
		check(t, err)
		t.Cleanup(func() { d.Close() })
		disks = append(disks, d.Path())
	}
	cfg.Pools = onDisks(disks...)
	return cfg, disks
}

// booted prepares the state, and binds it where the node expects it, as the boot image does.
func booted(t *testing.T, cfg Config, spec StateSpec) (StateVolume, Config) {
	t.Helper()
	v, err := PrepareState(t.Context(), cfg, spec)
	check(t, err)
	at := filepath.Join(cfg.State, "var")
	for _, name := range []string{"croft", "log"} {
		check(t, os.MkdirAll(filepath.Join(v.Path, name), 0o755))
		check(t, os.MkdirAll(filepath.Join(at, name), 0o755))
		check(t, unix.Mount(filepath.Join(v.Path, name), filepath.Join(at, name), "", unix.MS_BIND, ""))
	}
	cfg.State = filepath.Join(at, "croft", "storage")
	return v, cfg
}

// switchedOff takes away what a machine loses that is switched off.
func switchedOff(t *testing.T, cfg Config) {
	t.Helper()
	check(t, unmountBelow(filepath.Dir(filepath.Dir(cfg.State))))
	check(t, unmountBelow(cfg.Mounts))
}

func TestTheNodesStateIsOnItsFirstPool(t *testing.T) {
	for _, quota := range quotaKinds(t) {
		t.Run(string(quota), func(t *testing.T) {
			cfg, disks := machine(t, 2)
			cfg.Quota = quota
			v, cfg := booted(t, cfg, making())
			if !v.Made || v.Disk != disks[0] || v.Size != poolSize/2 || v.Path != filepath.Join(cfg.Mounts, v.Pool, "node", "state") {
				t.Fatalf("the state volume is %+v", v)
			}
			m := opened(t, cfg)
			status := m.status()
			if len(status.Pools) != 2 || status.Pools[0].State != v.Size || status.Pools[0].Reserved != v.Size || status.Pools[1].State != 0 {
				t.Fatalf("the status is %+v", status)
			}
			if list := names(t, m); len(list) != 0 {
				t.Errorf("the state is listed as a volume: %q", list)
			}
			rest := create(t, m, "7-1", status.Pools[0].Offered-v.Size)
			if rest.Pool == v.Pool {
				if n, err := fill(filepath.Join(rest.Path, "all"), rest.Size); !errors.Is(err, unix.EDQUOT) || n < rest.Size-4*mib {
					t.Errorf("%d bytes of %d are in the volume: %v", n, rest.Size, err)
				}
			}
			if n, err := fill(filepath.Join(v.Path, "log", "all"), poolSize); !errors.Is(err, unix.EDQUOT) || n > v.Size || n < v.Size-4*mib {
				t.Errorf("%d bytes of %d are in the state volume: %v", n, v.Size, err)
			}
			wantRunningNodeRefused(t, cfg)
			wantStateLimitIsRestored(t, m, v)
			kill(t, m)
			wantStateStays(t, cfg, v)
			switchedOff(t, cfg)
			again, err := PrepareState(t.Context(), Config{State: cfg.State, Mounts: cfg.Mounts, Pools: onDisks(disks[1], disks[0])}, making())
			check(t, err)
			if again.Made || again.UUID != v.UUID || again.Size != v.Size || again.Disk != disks[0] {
				t.Errorf("after another boot with the disks swapped it is %+v, was %+v", again, v)
			}
		})
	}
}

func wantRunningNodeRefused(t *testing.T, cfg Config) {
	t.Helper()
	if _, err := PrepareState(t.Context(), cfg, making()); !errors.Is(err, ErrInUse) {
		t.Errorf("beside the running node: %v", err)
	}
}

func wantStateLimitIsRestored(t *testing.T, m *Module, v StateVolume) {
	t.Helper()
	id, err := btrfs.SubvolumeID(v.Path)
	check(t, err)
	f, err := m.pools[0].open()
	check(t, err)
	defer f.Close()
	group := id
	if m.status().Quota == string(volume.Simple) {
		group = btrfs.GroupID(volume.FamilyLevel, id)
	}
	check(t, f.Limit(group, gib))
	m.limitAll()
	if g, err := f.ReadGroup(group); err != nil || g.Max != v.Size {
		t.Errorf("the limit stays %+v (%v)", g, err)
	}
}

// wantStateStays wants everything that would unmount a node's state under it to be refused.
func wantStateStays(t *testing.T, cfg Config, v StateVolume) {
	t.Helper()
	for what, err := range map[string]error{"detaching": Detach(t.Context(), cfg), "destroying": Destroy(t.Context(), cfg)} {
		if !errors.Is(err, node.Refused) || !strings.Contains(err.Error(), v.Pool) || !strings.Contains(err.Error(), filepath.Dir(cfg.State)) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, mounted, err := mountedAt(filepath.Join(cfg.Mounts, v.Pool)); err != nil || !mounted {
		t.Errorf("the pool isn't mounted any more (%v)", err)
	}
	direct := cfg
	direct.State = filepath.Join(v.Path, "croft", "storage")
	check(t, unmountBelow(filepath.Dir(filepath.Dir(cfg.State))))
	if err := Detach(t.Context(), direct); !errors.Is(err, node.Refused) || !strings.Contains(err.Error(), direct.State) {
		t.Errorf("detaching the pool on which the state is used: %v", err)
	}
}

func TestOnlyTheStateMayBeMountedElsewhere(t *testing.T) {
	cfg, _ := machine(t, 1)
	v, cfg := booted(t, cfg, making())
	m := opened(t, cfg)
	f := create(t, m, "7-1", 32*mib)
	kill(t, m)
	for what, from := range map[string]string{"a volume": f.Path, "the pool": filepath.Join(cfg.Mounts, v.Pool), "the folder above": filepath.Dir(v.Path)} {
		at := t.TempDir()
		check(t, unix.Mount(from, at, "", unix.MS_BIND, ""))
		m := opened(t, cfg)
		if status := m.status(); len(status.BrokenPools) != 1 || !strings.Contains(status.BrokenPools[0].Cause, at) {
			t.Errorf("with %s mounted elsewhere the status is %+v", what, status)
		}
		kill(t, m)
		check(t, unix.Unmount(at, 0))
	}
	// A pool that somebody unmounts while its state is in use is mounted again.
	m = opened(t, cfg)
	check(t, unix.Unmount(filepath.Join(cfg.Mounts, v.Pool), 0))
	create(t, m, "7-2", 32*mib)
}

func TestPreparingDiesAtEveryStep(t *testing.T) {
	cfg, disks := machine(t, 2)
	steps := dieOn(t, cfg, -1, strings.Join(disks, ","))
	if len(steps) < 8 {
		t.Fatalf("the steps are %q", steps)
	}
	for i, step := range append(steps, "the end") {
		t.Run(step, func(t *testing.T) {
			cfg, disks := machine(t, 2)
			dieOn(t, cfg, min(i, len(steps)-1), strings.Join(disks, ","))
			before, _ := btrfs.ReadSuper(disks[0])
			if i%2 == 0 { // the machine is switched off, too
				check(t, unmountBelow(cfg.Mounts))
			}
			v, err := PrepareState(t.Context(), cfg, making())
			check(t, err)
			if v.Disk != disks[0] || before.UUID != "" && before.UUID != v.UUID {
				t.Errorf("the state is %+v, the first pool was %+v", v, before)
			}
			if _, err := btrfs.ReadSuper(disks[1]); !errors.Is(err, node.NotExist) {
				t.Errorf("the second disk has a pool (%v)", err)
			}
			_, cfg = booted(t, cfg, making())
			m := opened(t, cfg)
			if s := m.status(); len(s.Pools) != 2 || s.Pools[0].State != v.Size {
				t.Errorf("the status is %+v", s)
			}
			wantNoTemporaries(t, v.Path)
		})
	}
}

func wantNoTemporaries(t *testing.T, path string) {
	t.Helper()
	if left := folderNames(t, filepath.Dir(path)); len(left) != 1 {
		t.Errorf("beside the state volume is %q", left)
	}
}

func TestPreparingFailsAtEveryStep(t *testing.T) {
	broken := errors.New("no more")
	for i := 0; ; i++ {
		cfg, disks := machine(t, 1)
		n, met := 0, ""
		cfg.hook = func(step string) error {
			if n++; n == i+1 {
				met = step
				return broken
			}
			return nil
		}
		_, err := PrepareState(t.Context(), cfg, making())
		if met == "" {
			check(t, err)
			break
		}
		if !errors.Is(err, broken) {
			t.Errorf("step %q failed: %v", met, err)
		}
		cfg.hook = nil
		if v, err := PrepareState(t.Context(), cfg, making()); err != nil || v.Disk != disks[0] {
			t.Errorf("after %q failed: %+v, %v", met, v, err)
		}
	}
}

// mkfs is what a test puts on a disk.
func mkfs(t *testing.T, disk, tool string, args ...string) {
	t.Helper()
	if out, err := command(t.Context(), tool, append(args, disk)...); err != nil {
		t.Fatalf("%s: %s %v", tool, out, err)
	}
}

// otherNodes makes a pool with a volume, as a node without a state volume does.
func otherNodes(t *testing.T, disk string) {
	t.Helper()
	cfg := newConfig(t)
	cfg.Pools = onDisks(disk)
	m := opened(t, cfg)
	create(t, m, "7-1", 32*mib)
	kill(t, m)
	check(t, Detach(t.Context(), cfg))
}

// loseSuper overwrites the superblock, as a bad sector does.
func loseSuper(t *testing.T, disk string) { swap(t, disk, 64<<10, make([]byte, 4096)) }

func TestADiskThatMayNotGetTheState(t *testing.T) {
	state := func(t *testing.T, cfg Config, disk string) {
		cfg.Pools = onDisks(disk)
		_, err := PrepareState(t.Context(), cfg, making())
		check(t, err)
		check(t, unmountBelow(cfg.Mounts))
	}
	for name, c := range map[string]struct {
		set  func(t *testing.T, cfg Config, disks []string) []string
		want string
	}{
		"pool of another node": {func(t *testing.T, _ Config, d []string) []string { otherNodes(t, d[1]); return d }, "whose state isn't there"},
		"missing disk":         {func(_ *testing.T, _ Config, d []string) []string { return []string{d[0], "/dev/none"} }, "/dev/none"},
		"damaged state": {func(t *testing.T, cfg Config, d []string) []string {
			state(t, cfg, d[1])
			loseSuper(t, d[1])
			return d
		}, "super-recover"},
		"two states": {func(t *testing.T, cfg Config, d []string) []string {
			state(t, cfg, d[0])
			state(t, cfg, d[1])
			return d
		}, "--state"},
		"a copy": {func(t *testing.T, cfg Config, d []string) []string {
			state(t, cfg, d[0])
			_, err := command(t.Context(), "dd", "if="+d[0], "of="+d[1], "bs=1M", "conv=fsync")
			check(t, err)
			return d
		}, "copy"},
		"only other content": {func(t *testing.T, _ Config, d []string) []string { mkfs(t, d[0], "mkfs.ext4", "-q"); return d[:1] }, "--wipe-disk"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, disks := machine(t, 2)
			named := c.set(t, cfg, disks)
			before := []string{edges(t, disks[0]), edges(t, disks[1])}
			cfg.Pools, cfg.WipeDisks = onDisks(named...), nil
			if name != "only other content" {
				cfg.WipeDisks = named
			}
			if v, err := PrepareState(t.Context(), cfg, making()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v, %v; want %q", v, err, c.want)
			}
			for i, d := range disks {
				if edges(t, d) != before[i] {
					t.Errorf("%s was changed", d)
				}
			}
		})
	}
}

func TestDisksThatGetTheState(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(t *testing.T, d []string)
		wipe int
		want int
	}{
		"the first is somebody's":  {func(t *testing.T, d []string) { mkfs(t, d[0], "mkfs.ext4", "-q") }, -1, 1},
		"the first may be wiped":   {func(t *testing.T, d []string) { mkfs(t, d[0], "mkfs.ext4", "-q") }, 0, 0},
		"the second is unfinished": {func(t *testing.T, d []string) { mkfs(t, d[1], "mkfs.btrfs", "-q", "--mixed", "-L", "croft-ssd-x") }, -1, 1},
		"formatting was ended": {func(t *testing.T, d []string) {
			mkfs(t, d[0], "mkfs.btrfs", "-q", "--mixed", "-L", "croft-ssd-x")
			swap(t, d[0], 64<<10+64, []byte("!"))
		}, -1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, disks := machine(t, 2)
			c.set(t, disks)
			if c.wipe >= 0 {
				cfg.WipeDisks = []string{disks[c.wipe]}
			}
			v, err := PrepareState(t.Context(), cfg, making())
			check(t, err)
			if v.Disk != disks[c.want] || !v.Made {
				t.Errorf("it is %+v, want %s", v, disks[c.want])
			}
		})
	}
}

func TestTheStateOfThatUUID(t *testing.T) {
	cfg, disks := machine(t, 3)
	var made []StateVolume
	for _, d := range disks[:2] {
		one := cfg
		one.Pools = onDisks(d)
		v, err := PrepareState(t.Context(), one, making())
		check(t, err)
		check(t, unmountBelow(cfg.Mounts))
		made = append(made, v)
	}
	spec := making()
	spec.UUID = made[1].UUID
	v, err := PrepareState(t.Context(), cfg, spec)
	check(t, err)
	if v.UUID != made[1].UUID || v.Made {
		t.Errorf("it is %+v, want that of %s", v, made[1].UUID)
	}
	cfg.Pools = onDisks(disks[0], disks[2])
	if v, err := PrepareState(t.Context(), cfg, spec); !errors.Is(err, node.Transient) {
		t.Errorf("without that disk it is %+v, %v", v, err)
	}
	cfg.Pools = onDisks(disks[2])
	if v, err := PrepareState(t.Context(), cfg, StateSpec{}); !errors.Is(err, node.NotExist) {
		t.Errorf("where none may be made it is %+v, %v", v, err)
	}
}

func TestStateVolumeChangesItsSize(t *testing.T) {
	cfg, _ := machine(t, 1)
	for _, c := range []struct{ ask, want uint64 }{{0, poolSize / 2}, {300 * mib, 300 * mib}, {0, 300 * mib}, {100 * mib, 100 * mib}} {
		v, err := PrepareState(t.Context(), cfg, StateSpec{Want: making().Want, Size: c.ask})
		check(t, err)
		if v.Size != c.want {
			t.Errorf("asked for %d it is %+v", c.ask, v)
		}
	}
	for _, bad := range []uint64{1, mib, poolSize} {
		if v, err := PrepareState(t.Context(), cfg, StateSpec{Want: making().Want, Size: bad}); err == nil {
			t.Errorf("%d bytes: %+v", bad, v)
		}
	}
	cfg.Pools = DefaultPools(poolSize)
	if _, err := PrepareState(context.Background(), cfg, making()); !errors.Is(err, node.Invalid) {
		t.Errorf("on a loop file: %v", err)
	}
}

func TestDefaultSizeOfAStateVolume(t *testing.T) {
	for pool, want := range map[uint64]uint64{gib / 2: gib / 4, 3 * gib: 3 * gib / 2, 5 * gib: 2 * gib, 40 * gib: 10 * gib, tib: 64 * gib} {
		if got := nodestate.Size(pool); got != want {
			t.Errorf("of a pool of %d it is %d, want %d", pool, got, want)
		}
	}
}
