package store_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/zdb/store"
)

func fuzzConfig(sequential bool) store.Config {
	return store.Config{
		Dir: "/data", Layout: store.V2(), Sequential: sequential, SegmentSize: 4096, Background: func(f func()) { f() }, Log: zerolog.Nop(),
	}.WithChunks(64).WithIdentity(7)
}

// fuzzStore is a store of a few segments, some of them cleaned.
func fuzzStore(tb testing.TB, sequential, clean bool) *memDisk {
	tb.Helper()
	d := newMemDisk()
	s, err := store.Open(fuzzConfig(sequential).OnDisk(d))
	if err != nil {
		tb.Fatal(err)
	}
	defer s.Discard()
	for i := range 120 {
		key := fmt.Appendf(nil, "k%d", i%9)
		if sequential {
			key = nil
			if i > 9 && i%3 > 0 {
				key = binary.LittleEndian.AppendUint64(nil, uint64(i%4))
			}
		}
		if _, _, err := s.Set(key, bytes.Repeat([]byte{byte(i)}, i*7%300), store.SetOptions{At: uint32(i)}); err != nil {
			tb.Fatal(err)
		}
		if i%10 == 9 && !sequential {
			if _, err := s.Delete(key, 1); err != nil {
				tb.Fatal(err)
			}
		}
		if err := s.Flush(); err != nil {
			tb.Fatal(err)
		}
	}
	if clean {
		if err := s.Close(); err != nil {
			tb.Fatal(err)
		}
	}
	return d.crash()
}

// pack puts a folder into a fuzzer's input: a byte for the mode, then for each file its name and content with
// their lengths.
func pack(d *memDisk, mode byte) []byte {
	b := []byte{mode}
	for _, path := range slices.Sorted(maps.Keys(d.files)) {
		name := strings.TrimPrefix(path, "/data/")
		b = append(b, byte(len(name)))
		b = append(b, name...)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(d.files[path].content)))
		b = append(b, d.files[path].content...)
	}
	return b
}

func unpack(b []byte) (*memDisk, byte) {
	d := newMemDisk()
	if len(b) == 0 {
		return d, 0
	}
	mode := b[0]
	for b = b[1:]; len(b) > 0; {
		n := int(b[0])
		if len(b) < n+5 {
			break
		}
		name := string(b[1 : n+1])
		size := int(min(binary.LittleEndian.Uint32(b[n+1:]), uint32(len(b)-n-5)))
		content := slices.Clone(b[n+5 : n+5+size])
		b = b[n+5+size:]
		if name == "" || strings.ContainsAny(name, "/\x00") {
			continue
		}
		if mode&2 != 0 {
			store.Seal(name, content)
		}
		d.files["/data/"+name] = &memFile{content: content, synced: slices.Clone(content)}
	}
	return d, mode
}

// FuzzOpen opens a folder with arbitrary content and uses the store.
func FuzzOpen(f *testing.F) {
	for _, sequential := range []bool{false, true} {
		for _, clean := range []bool{false, true} {
			mode := byte(0)
			if sequential {
				mode = 1
			}
			f.Add(pack(fuzzStore(f, sequential, clean), mode))
			f.Add(pack(fuzzStore(f, sequential, clean), mode|2))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d, mode := unpack(b)
		s, err := store.Open(fuzzConfig(mode&1 == 1).OnDisk(d))
		if err != nil {
			return
		}
		useAll(s)
		if err := s.Close(); err != nil {
			return
		}
		if s, err = store.Open(fuzzConfig(mode&1 == 1).OnDisk(d)); err != nil {
			t.Fatalf("what was closed can't be opened: %v", err)
		}
		s.Discard()
	})
}

// useAll does a bit of everything. Any answer will do.
func useAll(s *store.Store) {
	n := 0
	for e, ok, err := s.First(); ok && err == nil && n < 200; e, ok, err = s.Next(e) {
		n++
		key := slices.Clone(e.Key)
		_, _ = s.Value(e)
		_, _, _ = s.Parent(e)
		_, _, _ = s.At(e.Position)
		_, _, _ = s.Get(key)
		_, _ = s.Raw(e.Position.File, e.Position.Offset)
		if n%3 == 0 {
			_, _, _ = s.Set(key, []byte("over"), store.SetOptions{})
		}
		if n%5 == 0 {
			_, _ = s.Delete(key, 1)
		}
	}
	for e, ok, err := s.Last(); ok && err == nil && n < 400; e, ok, err = s.Prev(e) {
		n++
	}
	_, _, _ = s.Set([]byte("k1"), []byte("new"), store.SetOptions{})
	_, _, _ = s.Set(nil, []byte("new"), store.SetOptions{})
	_, _ = s.Raw(0, 28)
	_ = s.Flush()
}

// FuzzLog reads anything as a segment.
func FuzzLog(f *testing.F) {
	for path, file := range fuzzStore(f, false, false).files {
		var number uint32
		if _, err := fmt.Sscanf(path, "/data/log-%d", &number); err == nil {
			f.Add(file.content, number)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, number uint32) {
		h := &memHandle{d: newMemDisk(), f: &memFile{content: b}}
		if n := store.ScanLog(h, int64(len(b)), number); n > len(b)/48 {
			t.Fatalf("%d records in %d bytes", n, len(b))
		}
	})
}

// FuzzIndex reads anything as a file of the index.
func FuzzIndex(f *testing.F) {
	for _, sequential := range []bool{false, true} {
		for path, file := range fuzzStore(f, sequential, true).files {
			if strings.HasPrefix(path, "/data/index-") {
				f.Add(file.content, sequential)
			}
		}
	}
	f.Fuzz(func(_ *testing.T, b []byte, sequential bool) { store.ReadSlots(b, sequential) })
}

// FuzzCheckpoint reads anything as a checkpoint and as a file of tombstones.
func FuzzCheckpoint(f *testing.F) {
	f.Add(fuzzStore(f, false, true).files["/data/checkpoint"].content)
	f.Fuzz(func(t *testing.T, b []byte) {
		sealed := slices.Clone(b)
		store.Seal("checkpoint", sealed)
		for _, b := range [][]byte{b, sealed} {
			again, ok := store.ReadCheckpoint(b)
			if !ok {
				continue
			}
			if twice, ok := store.ReadCheckpoint(again); !ok || !bytes.Equal(again, twice) {
				t.Fatal("a checkpoint isn't the same when it is written again")
			}
		}
		if n := store.ReadTombstones(&memHandle{d: newMemDisk(), f: &memFile{content: b}}, int64(len(b))); n > len(b)/8 {
			t.Fatalf("%d places in %d bytes", n, len(b))
		}
	})
}
