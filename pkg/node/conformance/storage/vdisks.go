package storage

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance/expect"
	"github.com/croft-edge/croft/pkg/workload"
)

// VDisksClient is the interface of the stub of node.VDisks.
type VDisksClient interface {
	Allocate(ctx context.Context, spec node.VDiskSpec) (node.VDisk, error)
	Deallocate(ctx context.Context, name string) error
	Inspect(ctx context.Context, name string) (node.VDisk, error)
	List(ctx context.Context) ([]node.VDisk, error)
}

// VDisksSubject is a new module of virtual disks: empty, with one pool of 300 MiB to
// 4 GiB.
type VDisksSubject struct {
	Client VDisksClient
	// Pools is the storage module that has the disks' pool.
	Pools Client
	// Offers is the type of the pool, Lacks the other one.
	Offers workload.DeviceType
	Lacks  workload.DeviceType
	// Image has the content of the disks; files when nil.
	Image Image
	// Restart kills the module like kill -9, starts it again on the same
	// state, and returns the new client.
	Restart func(t *testing.T) VDisksClient
}

// VDisksSuite tests an implementation of node.VDisks. Each part gets its own subject
// from open.
func VDisksSuite(t *testing.T, open func(t *testing.T) VDisksSubject) {
	parts := []struct {
		name string
		run  func(t *testing.T, s VDisksSubject)
	}{
		{"allocate", vdisksAllocate},
		{"twice", vdisksTwice},
		{"differs", vdisksDiffers},
		{"grow", vdisksGrow},
		{"grow beyond the pool", vdisksGrowTooFar},
		{"another hash", vdisksAnotherHash},
		{"unlabelled", vdisksUnlabelled},
		{"remove", vdisksRemove},
		{"remove what isn't there", vdisksRemoveNothing},
		{"after a restart", vdisksRestart},
		{"bad names", vdisksBadNames},
		{"bad specs", vdisksBadSpecs},
		{"no space", vdisksNoSpace},
		{"space is given back", vdisksDiscard},
		{"at the same time", vdisksConcurrent},
	}
	for _, part := range parts {
		t.Run(part.name, func(t *testing.T) {
			s := open(t)
			if s.Image == nil {
				s.Image = imageFile{}
			}
			part.run(t, s)
		})
	}
}

func diskSpec(name string, size uint64) node.VDiskSpec { return node.VDiskSpec{Name: name, Size: size} }

func (s VDisksSubject) allocate(t *testing.T, name string, size uint64) node.VDisk {
	t.Helper()
	d, err := s.Client.Allocate(t.Context(), diskSpec(name, size))
	expect.NoError(t, err)
	return d
}

// refused wants a disk not to be allocated, with an error of that kind that has those texts.
func (s VDisksSubject) refused(t *testing.T, spec node.VDiskSpec, kind node.Kind, texts ...string) {
	t.Helper()
	_, err := s.Client.Allocate(t.Context(), spec)
	expect.Kind(t, err, kind)
	expect.Text(t, err, texts...)
}

func (s VDisksSubject) wantNames(t *testing.T, want ...string) {
	t.Helper()
	list, err := s.Client.List(t.Context())
	expect.NoError(t, err)
	names := []string{}
	for _, d := range list {
		names = append(names, d.Name)
	}
	if !slices.Equal(names, want) {
		t.Errorf("there are %v, want %v", names, want)
	}
}

// wantSame wants the only disk to be d, with the content of stamp.
func (s VDisksSubject) wantSame(t *testing.T, d node.VDisk) {
	t.Helper()
	seen, err := s.Client.Inspect(t.Context(), d.Name)
	expect.NoError(t, err)
	d.Used, seen.Used = 0, 0
	if seen != d {
		t.Errorf("inspect says %+v, want %+v", seen, d)
	}
	list, err := s.Client.List(t.Context())
	expect.NoError(t, err)
	if len(list) != 1 || list[0] != d {
		t.Errorf("list says %+v, want %+v", list, d)
	}
	size, open, err := s.Image.Stat(d.Path)
	expect.NoError(t, err)
	if size != d.Size || open {
		t.Errorf("its image has %d bytes, open to others %t; want %d", size, open, d.Size)
	}
	s.wantStamp(t, d)
}

// pool is the only pool.
func (s VDisksSubject) pool(t *testing.T) node.Pool {
	t.Helper()
	return Subject{Client: s.Pools}.pool(t)
}

// stampAt is where stamp writes: into every disk of the suite.
const stampAt = expect.MiB

// stamp writes a mark to a disk.
func (s VDisksSubject) stamp(t *testing.T, d node.VDisk) {
	t.Helper()
	expect.NoError(t, s.Image.Write(d.Path, stampAt, bytes.Repeat([]byte("kept"), 1024)))
}

func (s VDisksSubject) wantStamp(t *testing.T, d node.VDisk) {
	t.Helper()
	b, err := s.Image.Read(d.Path, stampAt, 4096)
	expect.NoError(t, err)
	if !bytes.Equal(b, bytes.Repeat([]byte("kept"), 1024)) {
		t.Errorf("the disk holds %.8q, want its data kept", b)
	}
}

func vdisksAllocate(t *testing.T, s VDisksSubject) {
	spec := node.VDiskSpec{Name: "7-1", Size: 64 * expect.MiB, DiskType: s.Offers, Hash: expect.OneHash}
	before := s.pool(t)
	d, err := s.Client.Allocate(t.Context(), spec)
	expect.NoError(t, err)
	want := node.VDisk{Name: "7-1", Path: d.Path, Pool: before.Name, DiskType: s.Offers, Size: 64 * expect.MiB, Used: d.Used, Hash: expect.OneHash}
	if d != want || d.Path == "" {
		t.Errorf("allocated %+v", d)
	}
	if d.Used > expect.MiB {
		t.Errorf("a new disk uses %d bytes", d.Used)
	}
	if b, err := s.Image.Read(d.Path, d.Size-4096, 4096); err != nil || !bytes.Equal(b, make([]byte, 4096)) {
		t.Errorf("a new disk holds %.8q (%v)", b, err)
	}
	// All of it can be written, and something beside it is kept for that.
	after := s.pool(t)
	if got := after.Reserved - before.Reserved; got < spec.Size || got > spec.Size*9/8+64*expect.MiB {
		t.Errorf("for a disk of %d bytes %d are reserved", spec.Size, got)
	}
	s.stamp(t, d)
	s.wantSame(t, d)
	s.refused(t, node.VDiskSpec{Name: "7-2", Size: 64 * expect.MiB, DiskType: s.Lacks}, node.Refused, "7-2", string(s.Lacks), string(s.Offers))
}

func vdisksTwice(t *testing.T, s VDisksSubject) {
	first := s.allocate(t, "7-1", 32*expect.MiB)
	s.stamp(t, first)
	reserved := s.pool(t).Reserved
	for range 2 {
		second := s.allocate(t, "7-1", 32*expect.MiB)
		second.Used = first.Used
		if second != first {
			t.Errorf("the second time it is %+v, the first %+v", second, first)
		}
	}
	s.wantSame(t, first)
	if got := s.pool(t).Reserved; got != reserved {
		t.Errorf("reserved were %d bytes, are %d", reserved, got)
	}
}

func vdisksDiffers(t *testing.T, s VDisksSubject) {
	d := s.allocate(t, "7-1", 32*expect.MiB)
	s.stamp(t, d)
	s.refused(t, diskSpec("7-1", 16*expect.MiB), node.Exist, "7-1", "33554432 bytes", "16777216 bytes")
	spec := diskSpec("7-1", 64*expect.MiB)
	spec.DiskType = s.Lacks
	s.refused(t, spec, node.Exist, "7-1", string(s.Lacks), string(s.Offers))
	s.wantSame(t, d)
}

func vdisksGrow(t *testing.T, s VDisksSubject) {
	d := s.allocate(t, "7-1", 32*expect.MiB)
	s.stamp(t, d)
	before := s.pool(t).Reserved
	for range 2 {
		grown := s.allocate(t, "7-1", 64*expect.MiB)
		d.Size, d.Used = 64*expect.MiB, grown.Used
		if grown != d || grown.Used > 2*expect.MiB {
			t.Errorf("grown it is %+v, want %+v", grown, d)
		}
		s.wantSame(t, d)
	}
	if more := s.pool(t).Reserved - before; more < 32*expect.MiB || more > 40*expect.MiB {
		t.Errorf("to grow by 32 MiB %d bytes are reserved", more)
	}
	expect.NoError(t, s.Image.Write(d.Path, d.Size-4096, make([]byte, 4096)))
	s.Client = s.Restart(t)
	s.wantSame(t, d)
	s.refused(t, diskSpec("7-1", 32*expect.MiB), node.Exist, "7-1")
}

func vdisksGrowTooFar(t *testing.T, s VDisksSubject) {
	d := s.allocate(t, "7-1", 32*expect.MiB)
	s.stamp(t, d)
	p := s.pool(t)
	for _, size := range []uint64{(32*expect.MiB + p.Offered - p.Reserved + 4096) &^ 4095, 1 << 62} {
		s.refused(t, diskSpec("7-1", size), node.NoSpace, "7-1", "from 32 MiB to", "needs", "more, free are", "pool "+p.Name)
	}
	s.wantSame(t, d)
	if got := s.pool(t).Reserved; got != p.Reserved {
		t.Errorf("reserved were %d bytes, are %d", p.Reserved, got)
	}
}

func vdisksAnotherHash(t *testing.T, s VDisksSubject) {
	spec := diskSpec("7-1", 32*expect.MiB)
	spec.Hash = expect.OneHash
	d, err := s.Client.Allocate(t.Context(), spec)
	expect.NoError(t, err)
	s.stamp(t, d)
	for _, hash := range []string{expect.AnotherHash, ""} {
		for _, size := range []uint64{32 * expect.MiB, 64 * expect.MiB} {
			foreign := node.VDiskSpec{Name: "7-1", Size: size, Hash: hash, AdoptUnlabelled: true}
			s.refused(t, foreign, node.Exist, "7-1", "isn't this reservation's")
		}
	}
	s.wantSame(t, d)
	spec.Size, d.Size = 64*expect.MiB, 64*expect.MiB
	_, err = s.Client.Allocate(t.Context(), spec)
	expect.NoError(t, err)
	s.Client = s.Restart(t)
	s.wantSame(t, d)
}

func vdisksUnlabelled(t *testing.T, s VDisksSubject) {
	d := s.allocate(t, "7-1", 32*expect.MiB)
	s.stamp(t, d)
	spec := diskSpec("7-1", 48*expect.MiB)
	spec.Hash = expect.OneHash
	s.refused(t, spec, node.Exist, "7-1", "isn't this reservation's")
	spec.AdoptUnlabelled, spec.Size = true, 16*expect.MiB
	s.refused(t, spec, node.Exist, "7-1")
	s.wantSame(t, d)
	spec.Size = 48 * expect.MiB
	adopted, err := s.Client.Allocate(t.Context(), spec)
	expect.NoError(t, err)
	d.Hash, d.Size, d.Used = expect.OneHash, 48*expect.MiB, adopted.Used
	if adopted != d {
		t.Errorf("adopted %+v, want %+v", adopted, d)
	}
	s.Client = s.Restart(t)
	s.wantSame(t, d)
	spec.Hash = expect.AnotherHash
	s.refused(t, spec, node.Exist, "7-1")
}

func vdisksRemove(t *testing.T, s VDisksSubject) {
	d := s.allocate(t, "7-1", 32*expect.MiB)
	s.stamp(t, d)
	before := s.pool(t).Reserved
	other := s.allocate(t, "7-2", 32*expect.MiB)
	s.stamp(t, other)
	expect.NoError(t, s.Client.Deallocate(t.Context(), "7-1"))
	if _, _, err := s.Image.Stat(d.Path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its file is still there: %v", err)
	}
	expect.Kind(t, s.Client.Deallocate(t.Context(), "7-1"), node.NotExist)
	s.wantSame(t, other)
	if got := s.pool(t).Reserved; got != before {
		t.Errorf("reserved are %d bytes, want %d", got, before)
	}
	again := s.allocate(t, "7-1", 16*expect.MiB)
	if b, err := s.Image.Read(again.Path, stampAt, 4096); err != nil || !bytes.Equal(b, make([]byte, 4096)) {
		t.Errorf("made anew it holds %.8q (%v)", b, err)
	}
}

func vdisksRemoveNothing(t *testing.T, s VDisksSubject) {
	err := s.Client.Deallocate(t.Context(), "9-9")
	expect.Kind(t, err, node.NotExist)
	expect.Text(t, err, "9-9")
	_, err = s.Client.Inspect(t.Context(), "9-9")
	expect.Kind(t, err, node.NotExist)
	s.wantNames(t)
}

func vdisksRestart(t *testing.T, s VDisksSubject) {
	d := s.allocate(t, "7-1", 32*expect.MiB)
	s.allocate(t, "7-2", 32*expect.MiB)
	s.stamp(t, d)
	expect.NoError(t, s.Client.Deallocate(t.Context(), "7-2"))
	reserved := s.pool(t).Reserved
	s.Client = s.Restart(t)
	s.wantSame(t, d)
	again := s.allocate(t, "7-1", 32*expect.MiB)
	again.Used = d.Used
	if again != d {
		t.Errorf("after a restart it is %+v, before %+v", again, d)
	}
	s.wantSame(t, d)
	if got := s.pool(t).Reserved; got != reserved {
		t.Errorf("reserved were %d bytes, are %d", reserved, got)
	}
}

func vdisksBadNames(t *testing.T, s VDisksSubject) {
	for _, name := range expect.BadNames() {
		s.refused(t, diskSpec(name, 32*expect.MiB), node.Invalid)
		expect.Kind(t, s.Client.Deallocate(t.Context(), name), node.Invalid)
		_, err := s.Client.Inspect(t.Context(), name)
		expect.Kind(t, err, node.Invalid)
	}
	s.wantNames(t)
}

func vdisksBadSpecs(t *testing.T, s VDisksSubject) {
	for _, size := range []uint64{0, 1, 511, 512, 4097, expect.Most, 1 << 63} {
		s.refused(t, diskSpec("7-1", size), node.Invalid, "7-1", "4096")
	}
	spec := diskSpec("7-1", 32*expect.MiB)
	spec.DiskType = "floppy"
	s.refused(t, spec, node.Invalid, "7-1", "floppy", "SSD", "HDD")
	spec = diskSpec("7-1", 32*expect.MiB)
	spec.Hash = "no hash"
	s.refused(t, spec, node.Invalid, "7-1", "Hash")
	s.wantNames(t)
}

func vdisksNoSpace(t *testing.T, s VDisksSubject) {
	p := s.pool(t)
	// Not even the pool's whole size fits: something is kept beside each disk.
	for _, size := range []uint64{p.Offered &^ 4095, 8 << 40, 1 << 62} {
		s.refused(t, diskSpec("7-1", size), node.NoSpace, "7-1", "needs ", "free are ")
	}
	s.wantNames(t)
}

func vdisksDiscard(t *testing.T, s VDisksSubject) {
	d := s.allocate(t, "7-1", 32*expect.MiB)
	used := func() uint64 {
		expect.NoError(t, s.Image.Sync(d.Path))
		seen, err := s.Client.Inspect(t.Context(), "7-1")
		expect.NoError(t, err)
		return seen.Used
	}
	for range 2 {
		for at := uint64(0); at < d.Size; at += expect.MiB {
			expect.NoError(t, s.Image.Write(d.Path, at, bytes.Repeat([]byte{byte(at >> 20), 7}, int(expect.MiB)/2)))
		}
		s.stamp(t, d)
		if got := used(); got < d.Size || got > d.Size+2*expect.MiB {
			t.Errorf("a full disk of %d bytes uses %d", d.Size, got)
		}
		expect.NoError(t, s.Image.Discard(d.Path, 8*expect.MiB, 16*expect.MiB))
		if got := used(); got > 18*expect.MiB {
			t.Errorf("when a half is discarded it uses %d bytes", got)
		}
		if b, err := s.Image.Read(d.Path, 8*expect.MiB, 4096); err != nil || !bytes.Equal(b, make([]byte, 4096)) {
			t.Errorf("what was discarded holds %.8q (%v)", b, err)
		}
		s.wantSame(t, d)
	}
}

func vdisksConcurrent(t *testing.T, s VDisksSubject) {
	var group sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		group.Go(func() { _, errs[i] = s.Client.Allocate(t.Context(), diskSpec("7-1", 16*expect.MiB)) })
	}
	group.Wait()
	expect.NoError(t, errors.Join(errs...))
	s.wantNames(t, "7-1")
}
