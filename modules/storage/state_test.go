package storage

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/storage/blockdev"
	"github.com/croft-edge/croft/modules/storage/btrfs"
	"github.com/croft-edge/croft/modules/storage/loop"
	"github.com/croft-edge/croft/pkg/mounts"
	"github.com/croft-edge/croft/pkg/node"
)

// booted is a machine whose state lies on its first pool, as the boot image has it.
type booted struct {
	t   *testing.T
	cfg Config
	// bound is where the state is bound.
	bound string
}

// newBooted makes a machine with that many empty disks.
func newBooted(t *testing.T, disks int) *booted {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() { sweep(t, dir) })
	b := &booted{t: t, bound: filepath.Join(dir, "state")}
	b.cfg = newConfig(t)
	b.cfg.Mounts, b.cfg.State, b.cfg.Pools = filepath.Join(dir, "mnt"), filepath.Join(b.bound, "storage"), nil
	check(t, os.Mkdir(b.bound, 0o700))
	for i := range disks {
		path := filepath.Join(dir, "disk"+string(rune('a'+i)))
		check(t, sparseFile(path, poolSize))
		d, err := loop.Attach(t.Context(), path)
		check(t, err)
		t.Cleanup(func() { d.Close() })
		b.cfg.Pools = append(b.cfg.Pools, PoolSpec{Disk: d.Path()})
	}
	return b
}

// wish allows a state on each disk.
func (b *booted) wish(uuid string) StateWish {
	w := StateWish{UUID: uuid}
	for _, p := range b.cfg.Pools {
		w.Make = append(w.Make, p.Disk)
	}
	return w
}

// boot finds or makes the state and opens the module on it.
func (b *booted) boot() (StateVolume, *Module) {
	b.t.Helper()
	state, err := OpenState(b.t.Context(), b.cfg, b.wish(""))
	check(b.t, err)
	b.bind(state)
	return state, opened(b.t, b.cfg)
}

func (b *booted) bind(state StateVolume) {
	b.t.Helper()
	check(b.t, os.MkdirAll(filepath.Join(state.Path, "croft"), 0o700))
	check(b.t, unix.Mount(filepath.Join(state.Path, "croft"), b.bound, "", unix.MS_BIND, ""))
}

// off ends the module and takes all mounts away, as a power cut does.
func (b *booted) off(m *Module) {
	b.t.Helper()
	if m != nil {
		kill(b.t, m)
	}
	for _, path := range []string{b.bound, b.cfg.Mounts} {
		check(b.t, unmountBelow(path))
	}
}

func (b *booted) wantPools(m *Module, pools int) {
	b.t.Helper()
	if s := m.status(); len(s.Pools) != pools || len(s.BrokenPools)+len(s.BrokenDevices) != 0 {
		b.t.Fatalf("the status is %+v, want %d pools", s, pools)
	}
}

// TestStateOnFirstPool holds that a machine finds its state again, that users see nothing of it, and that neither can take the other's space.
func TestStateOnFirstPool(t *testing.T) {
	b := newBooted(t, 2)
	first, m := b.boot()
	b.wantPools(m, 2)
	if !first.Made || first.Size == 0 || first.Disk != b.cfg.Pools[0].Disk {
		t.Errorf("the state is %+v", first)
	}
	if list, err := m.Storage().ListFilesystems(); err != nil || len(list) != 0 {
		t.Errorf("users' volumes are %v, %v", list, err)
	}
	var status node.Pool
	for _, p := range m.status().Pools {
		if p.Name == first.Pool {
			status = p
		}
	}
	if status.Reserved != first.Size+first.ImagesSize {
		t.Errorf("%d bytes are promised, the node's own volumes have %d and %d", status.Reserved, first.Size, first.ImagesSize)
	}
	rest := status.Offered - status.Reserved
	f, err := m.Storage().CreateFilesystem(node.FilesystemSpec{Name: "7-1", Size: rest / mib * mib, DiskType: status.DiskType})
	check(t, err)
	if n, err := fill(filepath.Join(b.bound, "much"), first.Size+64*mib); !errors.Is(err, unix.EDQUOT) || n > first.Size {
		t.Errorf("the state took %d of %d bytes: %v", n, first.Size, err)
	}
	if f.Pool == first.Pool {
		if n, err := fill(filepath.Join(f.Path, "all"), f.Size-8*mib); err != nil {
			t.Errorf("the volume took %d of %d bytes beside the full state: %v", n, f.Size, err)
		}
	}
	check(t, os.Remove(filepath.Join(b.bound, "much")))
	write(t, b.bound, "identity")
	for range 2 {
		b.off(m)
		var again StateVolume
		again, m = b.boot()
		b.wantPools(m, 2)
		if again.Made || again.UUID != first.UUID || again.Path != first.Path || again.Size != first.Size {
			t.Errorf("the state is %+v, was %+v", again, first)
		}
		wantData(t, b.bound, "identity")
	}
	// The restarted module finds everything mounted.
	m = reopen(t, m)
	b.wantPools(m, 2)
}

// TestStateLimitComesBack holds that the state's quota is looked after like any other.
func TestStateLimitComesBack(t *testing.T) {
	b := newBooted(t, 1)
	state, m := b.boot()
	p := m.pools[0]
	f, err := p.open()
	check(t, err)
	defer f.Close()
	id, err := btrfs.SubvolumeID(state.Path)
	check(t, err)
	group := id
	if p.filesystems.Quota() == btrfs.Simple {
		group = btrfs.GroupID(1, id)
	}
	check(t, f.Limit(group, 2*state.Size))
	if p.limited() {
		t.Fatal("a state with another limit counts as limited")
	}
	m.limitAll()
	if g, err := f.ReadGroup(group); err != nil || g.Max != state.Size {
		t.Errorf("the limit is %d, %v; want %d", g.Max, err, state.Size)
	}
}

// TestStateCrash cuts the power at each step of making the state: the next boot has one state, and it stays the same one.
func TestStateCrash(t *testing.T) {
	cut := errors.New("the power is cut")
	for at := 0; ; at++ {
		b := newBooted(t, 1)
		n := 0
		b.cfg.hook = func(string) error {
			if n++; n > at {
				return cut
			}
			return nil
		}
		_, err := OpenState(t.Context(), b.cfg, b.wish(""))
		over := err == nil
		b.cfg.hook = nil
		b.off(nil)
		first, m := b.boot()
		b.wantPools(m, 1)
		b.off(m)
		second, m := b.boot()
		if second.Made || second.UUID != first.UUID {
			t.Errorf("cut at step %d: the state is %+v, was %+v", at, second, first)
		}
		b.off(m)
		if over {
			if at < 4 {
				t.Errorf("making a state has %d steps", at)
			}
			return
		}
	}
}

// TestStateNeedsAFreeDisk holds that nothing is formatted that has anything on it: no file system, and no other node's pool.
func TestStateNeedsAFreeDisk(t *testing.T) {
	t.Run("a file system", func(t *testing.T) {
		b := newBooted(t, 1)
		if out, err := command(t.Context(), "mkfs.ext4", "-q", b.cfg.Pools[0].Disk); err != nil {
			t.Fatal(out)
		}
		b.wantNoState(node.NotExist, "ext4")
	})
	t.Run("a pool with volumes", func(t *testing.T) {
		b := newBooted(t, 1)
		other := newConfig(t)
		other.Pools = b.cfg.Pools
		m := opened(t, other)
		onDisk(t, m)
		kill(t, m)
		check(t, unmountBelow(other.complete().Mounts))
		b.cfg.WipeDisks = []string{b.cfg.Pools[0].Disk}
		b.wantNoState(node.NotExist, "of a node whose state isn't there")
	})
	t.Run("an empty disk that wasn't allowed", func(t *testing.T) {
		b := newBooted(t, 1)
		before := edges(t, b.cfg.Pools[0].Disk)
		if _, err := OpenState(t.Context(), b.cfg, StateWish{}); !errors.Is(err, node.NotExist) {
			t.Error(err)
		}
		if edges(t, b.cfg.Pools[0].Disk) != before {
			t.Error("the disk was changed")
		}
	})
	t.Run("no disk", func(t *testing.T) {
		b := newBooted(t, 0)
		b.wantNoState(node.NotExist, "no disk")
	})
	t.Run("a disk that is named for wiping", func(t *testing.T) {
		b := newBooted(t, 1)
		if out, err := command(t.Context(), "mkfs.ext4", "-q", b.cfg.Pools[0].Disk); err != nil {
			t.Fatal(out)
		}
		b.cfg.WipeDisks = []string{b.cfg.Pools[0].Disk}
		if state, _ := b.boot(); !state.Made {
			t.Errorf("the state is %+v", state)
		}
	})
}

func (b *booted) wantNoState(kind node.Kind, cause string) {
	b.t.Helper()
	var before []string
	for _, p := range b.cfg.Pools {
		before = append(before, edges(b.t, p.Disk))
	}
	_, err := OpenState(b.t.Context(), b.cfg, b.wish(""))
	if !errors.Is(err, kind) || !strings.Contains(err.Error(), cause) {
		b.t.Errorf("%v, want %v with %q", err, kind, cause)
	}
	for i, p := range b.cfg.Pools {
		if edges(b.t, p.Disk) != before[i] {
			b.t.Errorf("%s was changed", p.Disk)
		}
	}
	mounted, err := mounts.Read()
	check(b.t, err)
	if left := mounted.Within(b.cfg.Mounts); len(left) > 0 {
		b.t.Errorf("%v are mounted", left.Paths())
	}
}

// TestTwoStates holds that a machine never guesses which node it is.
func TestTwoStates(t *testing.T) {
	a, b := newBooted(t, 1), newBooted(t, 1)
	one, m := a.boot()
	a.off(m)
	other, m := b.boot()
	b.off(m)
	b.cfg.Pools = append(b.cfg.Pools, a.cfg.Pools...)
	b.wantNoStateOf(one.UUID, other.UUID)
	for _, want := range []StateVolume{one, other} {
		got, err := OpenState(t.Context(), b.cfg, b.wish(want.UUID))
		if err != nil || got.UUID != want.UUID || got.Made {
			t.Errorf("%+v, %v; want %s", got, err, want.UUID)
		}
		mounted, err := mounts.Read()
		check(t, err)
		if all := mounted.Within(b.cfg.Mounts); len(all) != 1 {
			t.Errorf("%v are mounted", all.Paths())
		}
		b.off(nil)
	}
	if got, err := OpenState(t.Context(), b.cfg, b.wish("00000000-0000-0000-0000-000000000000")); !errors.Is(err, node.Refused) {
		t.Errorf("%+v, %v", got, err)
	}
}

func (b *booted) wantNoStateOf(uuids ...string) {
	b.t.Helper()
	_, err := OpenState(b.t.Context(), b.cfg, b.wish(""))
	if !errors.Is(err, node.Refused) {
		b.t.Fatalf("%v, want a refusal", err)
	}
	for _, uuid := range uuids {
		if !strings.Contains(err.Error(), uuid) {
			b.t.Errorf("%v doesn't name %s", err, uuid)
		}
	}
}

// TestStateAndAnotherNodesPool holds that a machine with its state leaves a plugged-in disk of another node alone, unless it is named.
func TestStateAndAnotherNodesPool(t *testing.T) {
	b := newBooted(t, 2)
	foreign := b.cfg.Pools[1]
	other := newConfig(t)
	other.Pools = []PoolSpec{foreign}
	m := opened(t, other)
	onDisk(t, m)
	kill(t, m)
	check(t, unmountBelow(other.complete().Mounts))
	state, err := OpenState(t.Context(), b.cfg, b.wish(""))
	if err != nil || state.Disk != b.cfg.Pools[0].Disk {
		t.Fatalf("%+v, %v", state, err)
	}
	if super, err := btrfs.ReadSuper(foreign.Disk); err != nil || super.Label == blockdev.LabelPrefix+state.Pool {
		t.Errorf("%+v, %v", super, err)
	}
}

// TestOtherMountsOfThePool holds that only the state's own places count as the node's.
func TestOtherMountsOfThePool(t *testing.T) {
	b := newBooted(t, 1)
	state, m := b.boot()
	kill(t, m)
	somewhere := filepath.Join(filepath.Dir(b.bound), "somewhere")
	check(t, os.Mkdir(somewhere, 0o700))
	check(t, unix.Mount(filepath.Join(b.cfg.Mounts, state.Pool, "volumes"), somewhere, "", unix.MS_BIND, ""))
	m = opened(t, b.cfg)
	if s := m.status(); len(s.BrokenDevices) != 1 || !strings.Contains(s.BrokenDevices[0].Cause, "it is mounted on "+somewhere) {
		t.Errorf("the status is %+v", s)
	}
	check(t, m.Close(context.Background()))
}

func TestShares(t *testing.T) {
	for offered, want := range map[uint64][2]uint64{
		gib: {gib / 5 / 4096 * 4096, gib / 4}, 5 * gib: {512 * mib, gib + gib/4}, 20 * gib: {gib + gib/4, 5 * gib}, tib: {8 * gib, 64 * gib},
	} {
		if got := [2]uint64{stateShare().of(offered), imagesShare().of(offered)}; got != want {
			t.Errorf("of %d bytes the node takes %v, want %v", offered, got, want)
		}
	}
}
