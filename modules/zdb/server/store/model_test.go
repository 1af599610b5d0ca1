package store_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"pgregory.net/rapid"

	"github.com/croft-edge/croft/modules/zdb/server/store"
)

func sprintf(format string, args ...any) string { return fmt.Sprintf(format, args...) }

// machine runs a store on a disk in memory beside the oracle.
type machine struct {
	cfg    store.Config
	disk   *memDisk
	store  *store.Store
	acked  *oracle // what was flushed
	now    *oracle // with what was done since
	since  []op
	time   time.Time
	lazy   bool
	serial uint32
}

func newMachine(t *rapid.T) *machine {
	m := &machine{disk: newMemDisk(), time: time.Unix(1580000000, 0)}
	m.cfg = store.Config{
		Dir: "/data", IndexDir: rapid.SampledFrom([]string{"", "/index"}).Draw(t, "index"),
		Sequential:  rapid.Bool().Draw(t, "sequential"),
		Layout:      rapid.SampledFrom([]store.Layout{store.V1(), store.V2()}).Draw(t, "layout"),
		DataSize:    rapid.SampledFrom([]uint64{0, 700, 5000}).Draw(t, "dataSize"),
		SegmentSize: rapid.SampledFrom([]uint64{4096, 16384}).Draw(t, "segment"),
		MaxSize:     rapid.SampledFrom([]uint64{0, 1 << 40, 4000}).Draw(t, "maxSize"),
		Sync:        rapid.Bool().Draw(t, "sync"),
		Background:  func(f func()) { f() },
		Log:         zerolog.New(io.Discard),
	}.WithChunks(rapid.SampledFrom([]uint64{7, 64, 5000}).Draw(t, "chunk")).AtTime(func() time.Time { return m.time })
	m.lazy = m.cfg.MaxSize != 1<<40
	m.acked = newOracle(m.cfg)
	m.now = m.acked.clone()
	m.open(t)
	return m
}

func (m *machine) open(t fataler) {
	t.Helper()
	s, err := store.Open(m.cfg.OnDisk(m.disk))
	if err != nil {
		t.Fatalf("cannot open: %v", err)
	}
	m.store = s
}

// key draws a key that is often there.
func (m *machine) key(t *rapid.T) string {
	if m.cfg.Sequential {
		if len(m.now.slots) == 0 || rapid.IntRange(0, 2).Draw(t, "new") == 0 {
			return ""
		}
		n := rapid.IntRange(0, len(m.now.slots)).Draw(t, "id")
		id := []byte{byte(n), byte(n >> 8), 0, 0, 0, 0, 0, 0}
		return string(id[:m.cfg.Layout.IDSize])
	}
	return sprintf("key-%s%d", strings.Repeat("x", rapid.SampledFrom([]int{0, 0, 9, 100}).Draw(t, "long")), rapid.IntRange(0, 12).Draw(t, "key"))
}

func (m *machine) did(p op) {
	m.now.do(p)
	m.since = append(m.since, p)
}

func (m *machine) set(t *rapid.T) {
	key := m.key(t)
	n := rapid.SampledFrom([]int{0, 1, 10, 100, 600, 3000}).Draw(t, "length")
	m.serial++
	value := strings.Repeat(sprintf("%06d,", m.serial), n/7+1)[:n]
	if old, ok := m.now.live[key]; ok && rapid.IntRange(0, 5).Draw(t, "same") == 0 {
		value = m.now.slots[old].value
	}
	m.time = m.time.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "seconds")) * 500 * time.Millisecond)
	m.setOp(t, op{opSet, key, value, uint32(m.time.Unix())})
}

func (m *machine) setOp(t fataler, p op) {
	old, has := m.now.live[p.key]
	id, wrote, err := m.store.Set([]byte(p.key), []byte(p.value), store.SetOptions{At: p.at})
	switch {
	case err == store.ErrNoSpace && m.cfg.MaxSize > 0 && m.cfg.MaxSize < 1<<40:
		if m.dataBytes()+len(p.value) > int(m.cfg.MaxSize)/2 {
			return
		}
		t.Fatalf("no space with %d bytes of %d", m.dataBytes(), m.cfg.MaxSize)
	case m.cfg.Sequential && p.key != "" && !has:
		if err != store.ErrUnknownID {
			t.Fatalf("Set of the unknown id %q: %v", p.key, err)
		}
		return
	case err != nil:
		t.Fatalf("Set(%q): %v", p.key, err)
	case has && m.now.slots[old].value == p.value:
		if wrote {
			t.Fatalf("Set of the same value wrote")
		}
		return
	}
	want := p.key
	if want == "" {
		want = m.now.nextID()
	}
	if !wrote || !bytes.Equal(id, []byte(want)) {
		t.Fatalf("Set(%q) answers %q, %t; want %q", p.key, id, wrote, want)
	}
	m.did(p)
}

func (m *machine) dataBytes() int {
	n := 0
	for _, i := range m.now.live {
		n += len(m.now.slots[i].value)
	}
	return n
}

func (m *machine) delete(t *rapid.T) {
	key := m.key(t)
	if key == "" {
		return
	}
	_, has := m.now.live[key]
	ok, err := m.store.Delete([]byte(key), uint32(m.time.Unix()))
	if err != nil || ok != has {
		t.Fatalf("Delete(%q): %t, %v; want %t", key, ok, err, has)
	}
	if has {
		m.did(op{kind: opDelete, key: key, at: uint32(m.time.Unix())})
	}
}

func (m *machine) rotate(t *rapid.T) {
	if err := m.store.Rotate(); err != nil {
		t.Fatalf("Rotate: %v", err)
	}
	m.did(op{kind: opRotate})
}

func (m *machine) flush(t *rapid.T) {
	if err := m.store.Flush(); err != nil {
		t.Fatalf("Flush: %v", err)
	}
	m.ack()
}

func (m *machine) ack() {
	m.acked, m.since = m.now.clone(), nil
}

func (m *machine) work(t *rapid.T) {
	m.time = m.time.Add(time.Duration(rapid.IntRange(0, 70).Draw(t, "pause")) * time.Second)
	if _, err := m.store.Work(m.time, rapid.SampledFrom([]int{1, 500, 100000}).Draw(t, "budget")); err != nil {
		t.Fatalf("Work: %v", err)
	}
	m.ack()
}

func (m *machine) reopen(t *rapid.T) {
	if err := m.store.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	m.ack()
	m.open(t)
}

// crash opens the store as it is after kill -9.
func (m *machine) crash(t *rapid.T) {
	m.disk = m.disk.crash()
	m.open(t)
	m.adopt(t)
}

// adopt finds out how much of what wasn't acknowledged is there: it is the beginning of it.
func (m *machine) adopt(t fataler) {
	t.Helper()
	try := m.acked.clone()
	why := try.compare(m.store, m.lazy)
	for _, p := range m.since {
		if why == "" {
			break
		}
		try.do(p)
		if try.compare(m.store, m.lazy) == "" {
			why = ""
		}
	}
	if why != "" {
		t.Fatalf("what was acknowledged isn't there: %s", why)
	}
	m.now, m.since = try, nil
	m.acked = m.now.clone()
}

// lose removes or damages what the store can make again.
func (m *machine) lose(t *rapid.T) {
	m.flush(t)
	m.store.Discard()
	m.disk = m.disk.crash()
	name := rapid.SampledFrom([]string{"checkpoint", "index-"}).Draw(t, "what")
	lost := false
	for path, f := range m.disk.files {
		if !strings.Contains(path, name) {
			continue
		}
		lost = true
		if rapid.Bool().Draw(t, "remove") || len(f.content) == 0 {
			delete(m.disk.files, path)
			continue
		}
		f.content[rapid.IntRange(0, len(f.content)-1).Draw(t, "byte")] ^= 0x10
	}
	m.open(t)
	if lost && m.cfg.Sequential && name == "index-" {
		// Slots are read when they are needed: damage is found then, and mended at the next start.
		m.now.compare(m.store, true)
		m.store.Discard()
		m.disk = m.disk.crash()
		m.open(t)
	}
	m.lazy = m.lazy || lost
}

func TestStoreIsAsToldWhateverHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		steps := map[string]func(*rapid.T){
			"set": m.set, "set2": m.set, "set3": m.set, "delete": m.delete, "rotate": m.rotate, "flush": m.flush,
			"flush2": m.flush, "work": m.work, "reopen": m.reopen, "crash": m.crash, "lose": m.lose,
			"": func(t *rapid.T) { m.now.check(t, m.store, m.lazy) },
		}
		t.Repeat(steps)
		m.reopen(t)
		m.now.check(t, m.store, m.lazy)
		m.store.Discard()
	})
}

var _ = rand.IntN
