package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"pgregory.net/rapid"

	"github.com/croft-edge/croft/zdb/store"
)

func sprintf(format string, args ...any) string { return fmt.Sprintf(format, args...) }

// machine runs a store on a disk in memory beside the oracle.
type machine struct {
	cfg    store.Config
	disk   *memDisk
	store  *store.Store
	acked  *oracle // the flushed content
	now    *oracle // with the changes since
	since  []op
	time   time.Time
	lazy   bool
	serial uint32

	durable *oracle             // what no power cut may take
	touched map[string][]string // values written since, "-" for a deletion
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
	}.WithChunks(rapid.SampledFrom([]uint64{7, 64, 5000}).Draw(t, "chunk")).AtTime(func() time.Time { return m.time }).WithIdentity(7)
	m.lazy = m.cfg.MaxSize != 1<<40
	m.acked = newOracle(m.cfg)
	m.now = m.acked.clone()
	m.open(t)
	m.last()
	return m
}

// last notes that all that was acknowledged is on disk.
func (m *machine) last() {
	m.durable, m.touched = m.acked.clone(), map[string][]string{}
	for _, p := range m.since {
		m.touch(p)
	}
}

func (m *machine) touch(p op) {
	switch p.kind {
	case opSet:
		m.touched[p.key] = append(m.touched[p.key], p.value)
	case opDelete:
		m.touched[p.key] = append(m.touched[p.key], "-")
	}
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
	m.since = append(m.since, p)
	next := m.now.nextID()
	m.now.do(p)
	if p.key == "" {
		p.key = next
	}
	m.touch(p)
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
	case err != nil && m.failing():
		m.disk.failed = true
		return
	case errors.Is(err, store.ErrNoSpace) && m.cfg.MaxSize > 0 && m.cfg.MaxSize < 1<<40:
		if m.dataBytes()+len(p.value) > int(m.cfg.MaxSize)/2 {
			return
		}
		t.Fatalf("no space with %d bytes of %d", m.dataBytes(), m.cfg.MaxSize)
	case m.cfg.Sequential && p.key != "" && !has:
		if !errors.Is(err, store.ErrUnknownID) {
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
	if err != nil && m.failing() {
		m.disk.failed = true
		return
	}
	if err != nil || ok != has {
		t.Fatalf("Delete(%q): %t, %v; want %t", key, ok, err, has)
	}
	if has {
		m.did(op{kind: opDelete, key: key, at: uint32(m.time.Unix())})
	}
}

func (m *machine) rotate(t *rapid.T) {
	if err := m.store.Rotate(); err != nil {
		if m.failing() {
			m.disk.failed = true
			return
		}
		t.Fatalf("Rotate: %v", err)
	}
	m.did(op{kind: opRotate})
}

func (m *machine) flush(t *rapid.T) {
	if err := m.store.Flush(); err != nil {
		if m.failing() {
			m.disk.failed = true
			return
		}
		t.Fatalf("Flush: %v", err)
	}
	m.ack()
}

func (m *machine) ack() {
	m.acked, m.since = m.now.clone(), nil
	if m.cfg.Sync {
		m.last()
	}
}

func (m *machine) work(t *rapid.T) {
	m.time = m.time.Add(time.Duration(rapid.IntRange(0, 70).Draw(t, "pause")) * time.Second)
	if _, err := m.store.Work(m.time, rapid.SampledFrom([]int{1, 500, 100000}).Draw(t, "budget")); err != nil {
		if m.failing() {
			m.disk.failed = true
			return
		}
		t.Fatalf("Work: %v", err)
	}
}

func (m *machine) reopen(t *rapid.T) {
	if err := m.store.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	m.ack()
	m.last()
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
		// A Set that goes to the next file may have got only as far as that.
		if half := try.clone(); half.goesOn(p) && half.compare(m.store, m.lazy) == "" {
			try, why = half, ""
			break
		}
		try.do(p)
		if other := try.compare(m.store, m.lazy); other == "" {
			why = ""
		} else {
			why += "; or " + other
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
	for _, path := range slices.Sorted(maps.Keys(m.disk.files)) {
		f := m.disk.files[path]
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

// failing says whether the disk refuses something.
func (m *machine) failing() bool { return m.disk.left >= 0 || m.disk.space > 0 }

// tryUntilItFails does things until the disk refuses one.
func (m *machine) tryUntilItFails(t *rapid.T) {
	m.disk.failed = false
	for range 60 {
		switch rapid.IntRange(0, 9).Draw(t, "try") {
		case 0:
			m.delete(t)
		case 1, 2, 3:
			m.flush(t)
		case 4:
			m.work(t)
		default:
			m.set(t)
		}
		if m.disk.failed {
			return
		}
	}
}

// die kills the process in the middle of something that it does with the disk.
func (m *machine) die(t *rapid.T) {
	m.disk.left = rapid.IntRange(0, 40).Draw(t, "operations")
	m.tryUntilItFails(t)
	m.store.Discard()
	m.crash(t)
}

// fill lets the disk be full for a while.
func (m *machine) fill(t *rapid.T) {
	m.disk.space = m.disk.used() + int64(rapid.IntRange(0, 6000).Draw(t, "space"))
	m.lazy = true // old versions may be removed for room
	m.tryUntilItFails(t)
	if m.store.Flush() == nil && !m.disk.failed {
		m.ack()
	}
	m.disk.space = 0
	m.adopt(t)
	m.set(t)
	m.flush(t)
}

// full ends the store on a full disk, in order or not, and opens it there: all can be read.
func (m *machine) full(t *rapid.T) {
	m.disk.space = m.disk.used() + int64(rapid.IntRange(0, 6000).Draw(t, "space"))
	m.lazy = true
	m.tryUntilItFails(t)
	if rapid.Bool().Draw(t, "close") {
		_ = m.store.Close() // the checkpoint may have no room
	} else {
		m.store.Discard()
	}
	m.disk = m.disk.crash()
	m.disk.space = m.disk.used()
	m.open(t)
	m.adopt(t)
	m.disk.space = 0
	m.set(t)
	m.flush(t)
}

// cut cuts the power, checks the remaining content, and reopens the store.
func (m *machine) cut(t *rapid.T) {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "luck"), 1))
	if rapid.Bool().Draw(t, "dead") {
		m.disk.left = rapid.IntRange(0, 40).Draw(t, "operations")
		m.tryUntilItFails(t)
	}
	m.store.Discard()
	m.disk = m.disk.powerCut(r)
	m.open(t)
	m.checkDurable(t)
	if err := m.store.Close(); err != nil {
		t.Fatalf("Close after a power cut: %v", err)
	}
	if rapid.Bool().Draw(t, "without index") {
		maps.DeleteFunc(m.disk.files, func(path string, _ *memFile) bool { return strings.HasSuffix(path, "/checkpoint") })
	}
	m.open(t)
	m.checkDurable(t)
	if err := m.store.Close(); err != nil {
		t.Fatalf("Close after a power cut: %v", err)
	}
	m.disk = newMemDisk()
	m.open(t)
	m.acked = newOracle(m.cfg)
	m.now, m.since = m.acked.clone(), nil
	m.last()
}

// checkDurable checks that synced entries are there, and none that was never written.
func (m *machine) checkDurable(t *rapid.T) {
	t.Helper()
	for key, i := range m.durable.live {
		v, found, err := m.store.Get([]byte(key))
		want := append([]string{m.durable.slots[i].value}, m.touched[key]...)
		if err != nil && len(want) > 1 {
			continue
		}
		if err != nil || !among(string(v), found, want) {
			t.Fatalf("after a power cut %q is %d bytes, %t, %v; want one of %d versions", key, len(v), found, err, len(want))
		}
	}
	n := 0
	for e, found, err := m.store.First(); found || err != nil; e, found, err = m.store.Next(e) {
		if err != nil {
			t.Fatalf("walking after a power cut: %v", err)
		}
		key := string(e.Key)
		n++
		v, err := m.store.Value(e)
		var want []string
		if i, ok := m.durable.live[key]; ok {
			want = append(want, m.durable.slots[i].value)
		}
		want = append(want, m.touched[key]...)
		if err == nil && !among(string(v), true, want) {
			t.Fatalf("after a power cut %q is there: %d bytes", key, len(v))
		}
	}
	if got := m.store.Stats().Entries; int(got) < n {
		t.Fatalf("after a power cut there are %d entries, counted are %d", n, got)
	}
}

func among(v string, found bool, want []string) bool {
	for _, w := range want {
		if found && v == w || !found && w == "-" {
			return true
		}
	}
	return false
}

func TestStoreMatchesModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		steps := map[string]func(*rapid.T){
			"set": m.set, "set2": m.set, "set3": m.set, "delete": m.delete, "rotate": m.rotate, "flush": m.flush,
			"flush2": m.flush, "work": m.work, "reopen": m.reopen, "crash": m.crash, "lose": m.lose,
			"die": m.die, "fill": m.fill, "full": m.full, "cut": m.cut,
			"": func(t *rapid.T) { m.now.check(t, m.store, m.lazy) },
		}
		t.Repeat(steps)
		m.reopen(t)
		m.now.check(t, m.store, m.lazy)
		m.store.Discard()
	})
}
