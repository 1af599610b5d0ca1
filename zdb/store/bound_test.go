package store_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/croft-edge/croft/pkg/zdbspace"
	"github.com/croft-edge/croft/zdb/store"
)

// onDisk is what the files of a folder take, as the file system counts, without the unused end of a file's last block:
// the chunks of these tests are smaller than a block, a namespace's are not.
func onDisk(t *testing.T, dir string) uint64 {
	t.Helper()
	n := uint64(0)
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it went meanwhile
		}
		if err == nil {
			stat := info.Sys().(*syscall.Stat_t)
			taken := uint64(stat.Blocks) * 512
			if last := uint64(stat.Size) % uint64(stat.Blksize); last > 0 && taken <= uint64(stat.Size)-last+uint64(stat.Blksize) {
				taken = min(taken, uint64(stat.Size))
			}
			n += taken
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return n
}

const (
	boundSegment = 128 << 10
	boundLimit   = 1 << 20
)

// boundFor is MaxDisk, with its fixed part scaled as segments are.
func boundFor(limit uint64) uint64 { return limit + limit/4 + 8*boundSegment }

func TestDefaultBoundIsTheContracts(t *testing.T) {
	for _, m := range []uint64{0, 1, 10 << 20, 1 << 30, 1 << 40} {
		if store.MaxDisk(m) != zdbspace.Bound(m) {
			t.Errorf("MaxDisk(%d) is %d, want %d", m, store.MaxDisk(m), zdbspace.Bound(m))
		}
		if m > 0 && store.HardLimit(m) > int64(zdbspace.Bound(m)-2*store.SegmentFor(m)/4) {
			t.Errorf("with a limit of %d writing waits at %d, the disk has %d", m, store.HardLimit(m), zdbspace.Bound(m))
		}
	}
}

// TestDiskUsageStaysBelowBound overwrites and deletes without end.
func TestDiskUsageStaysBelowBound(t *testing.T) {
	for _, sequential := range []bool{false, true} {
		for _, size := range []int{0, 8, 100, 1000, 20000} {
			t.Run(fmt.Sprintf("sequential=%t,%d bytes", sequential, size), func(t *testing.T) {
				b := &bounded{t: t, size: size, r: rand.New(rand.NewPCG(1, uint64(size))), live: map[string][]byte{}}
				b.cfg = config(t, store.V2(), sequential)
				b.cfg.MaxSize, b.cfg.SegmentSize = boundLimit, boundSegment
				b.cfg = b.cfg.WithChunks(1024)
				b.s = open(t, b.cfg)
				b.run()
			})
		}
	}
}

type bounded struct {
	t       *testing.T
	cfg     store.Config
	s       *store.Store
	size    int
	r       *rand.Rand
	live    map[string][]byte
	keys    []string
	refused int
	most    uint64
	serial  uint64
}

func (b *bounded) run() {
	written, rounds := 0, 0
	// Five times what there may be.
	for written < 5*boundLimit {
		for range 16 {
			written += b.step()
		}
		if err := b.s.Flush(); err != nil {
			b.t.Fatal(err)
		}
		if rounds++; rounds%50 == 0 {
			b.measure()
		}
		if rounds%700 == 0 {
			b.check()
			if b.r.IntN(2) == 0 {
				b.s.Discard() // as kill -9: flushed entries are there
			} else if err := b.s.Close(); err != nil {
				b.t.Fatal(err)
			}
			b.s = open(b.t, b.cfg)
			b.check()
		}
	}
	b.check()
	b.measure()
	b.t.Logf("%d rounds, %d entries, %d refused, at most %d KiB on disk of %d", rounds, len(b.live), b.refused, b.most>>10, boundFor(boundLimit)>>10)
	if b.refused > 0 && b.size >= 1000 && b.s.Stats().DataBytes < boundLimit*9/10 {
		b.t.Errorf("refused with %d bytes of %d", b.s.Stats().DataBytes, boundLimit)
	}
}

func (b *bounded) measure() {
	got := onDisk(b.t, b.cfg.Dir)
	b.most = max(b.most, got)
	if got > boundFor(boundLimit) {
		b.t.Fatalf("%d bytes on disk, at most %d are allowed; the store counts %d", got, boundFor(boundLimit), b.s.Stats().Disk)
	}
}

// step does one thing and answers about how many bytes it wrote.
func (b *bounded) step() int {
	b.serial++
	key := b.pick()
	if key != "" && b.live[key] != nil && b.r.IntN(8) == 0 {
		ok, err := b.s.Delete([]byte(key), 1)
		if err != nil || !ok {
			b.t.Fatal(ok, err)
		}
		delete(b.live, key)
		return 100
	}
	value := make([]byte, b.size+b.r.IntN(b.size/4+8))
	if len(value) >= 8 {
		binary.LittleEndian.PutUint64(value, b.serial)
	}
	id, wrote, err := b.s.Set([]byte(key), value, store.SetOptions{At: uint32(b.serial)})
	if errors.Is(err, store.ErrNoSpace) {
		b.refused++
		return 200
	}
	if err != nil {
		b.t.Fatal(err)
	}
	if !wrote {
		return 100
	}
	if _, has := b.live[string(id)]; !has && key == "" {
		b.keys = append(b.keys, string(id))
	}
	b.live[string(id)] = value
	return b.size + 130
}

// pick answers a key that may be there: half of the time one of a few.
func (b *bounded) pick() string {
	if !b.cfg.Sequential {
		return fmt.Sprintf("key-%06d", b.r.IntN([]int{200, 8000}[b.r.IntN(2)]))
	}
	if len(b.keys) == 0 || b.r.IntN(3) == 0 {
		return ""
	}
	i := b.r.IntN(len(b.keys))
	if b.live[b.keys[i]] != nil {
		return b.keys[i]
	}
	b.keys[i] = b.keys[len(b.keys)-1]
	b.keys = b.keys[:len(b.keys)-1]
	return ""
}

// check compares everything.
func (b *bounded) check() {
	b.t.Helper()
	if got := b.s.Stats().Entries; got != uint64(len(b.live)) {
		b.t.Fatalf("%d entries, want %d", got, len(b.live))
	}
	for k, want := range b.live {
		if v, found, err := b.s.Get([]byte(k)); err != nil || !found || !bytes.Equal(v, want) {
			b.t.Fatalf("Get(%q): %d bytes, %t, %v; want %d", k, len(v), found, err, len(want))
		}
	}
	n := 0
	for e, ok, err := b.s.First(); ok || err != nil; e, ok, err = b.s.Next(e) {
		if err != nil || b.live[string(e.Key)] == nil {
			b.t.Fatalf("walking: %+v, %v", e, err)
		}
		n++
	}
	if n != len(b.live) {
		b.t.Fatalf("walking finds %d entries, want %d", n, len(b.live))
	}
}

func TestHistoryIsKeptUntilSpaceIsNeeded(t *testing.T) {
	cfg := config(t, store.V2(), false)
	cfg.MaxSize, cfg.SegmentSize = boundLimit, boundSegment
	s := open(t, cfg)
	value := bytes.Repeat([]byte{1}, 1000)
	for i := range uint32(900) { // 0.9 MiB: too little to be compacted
		value[0], value[1] = byte(i), byte(i>>8)
		set(t, s, "key", string(value), i)
	}
	e, found, err := s.Lookup([]byte("key"))
	if err != nil || !found {
		t.Fatal(found, err)
	}
	for n := 898; n >= 0; n-- {
		if e, found, err = s.Parent(e); err != nil || !found || e.Time != uint32(n) {
			t.Fatalf("version %d: %+v, %t, %v", n, e, found, err)
		}
	}
}
