package store_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/croft-edge/croft/zdb/store"
)

// oracle is the simplest model of a store's content.
type oracle struct {
	layout     store.Layout
	sequential bool
	dataSize   uint64
	slots      []told
	raws       []toldRaw
	live       map[string]int
	file       uint32
	data       uint32
	index      uint32
	prev       uint32
}

// told is a version.
type told struct {
	key, value string
	time       uint32
	dead       bool
	at         store.Position
	parent     int // the version before, -1: none
}

type toldRaw struct {
	at      store.Position
	prev    uint32
	key     string
	value   string
	deleted bool
}

// op is one operation: an empty key with set makes a new id.
type op struct {
	kind       opKind
	key, value string
	at         uint32
}

type opKind int

const (
	opSet opKind = iota
	opDelete
	opRotate
)

func newOracle(cfg store.Config) *oracle {
	size := cfg.DataSize
	if size == 0 {
		size = store.DefaultDataSize
	}
	return &oracle{
		layout: cfg.Layout, sequential: cfg.Sequential, dataSize: size, live: map[string]int{},
		data: cfg.Layout.DataHeader, index: cfg.Layout.IndexHeader,
	}
}

func (o *oracle) clone() *oracle {
	c := *o
	c.slots, c.raws = slices.Clone(o.slots), slices.Clone(o.raws)
	c.live = make(map[string]int, len(o.live))
	for k, v := range o.live {
		c.live[k] = v
	}
	return &c
}

func (o *oracle) do(p op) {
	switch p.kind {
	case opSet:
		o.set(p.key, p.value, p.at)
	case opDelete:
		o.delete(p.key, p.at)
	case opRotate:
		o.rotate()
	}
}

func (o *oracle) set(key, value string, at uint32) {
	old, has := o.live[key]
	if o.sequential && key != "" && !has || has && o.slots[old].value == value {
		return
	}
	if uint64(o.data)+uint64(len(value)) > o.dataSize {
		o.rotate()
	}
	if key == "" {
		key = o.nextID()
	}
	pos := store.Position{File: o.file, Offset: o.index}
	v := told{key: key, value: value, time: at, at: pos, parent: -1}
	o.raw(toldRaw{key: key, value: value})
	o.index += o.layout.IndexEntry + uint32(len(key))
	switch {
	case !has:
		o.live[key] = len(o.slots)
		o.slots = append(o.slots, v)
	case o.sequential:
		was := o.slots[old]
		was.dead, was.at = true, pos
		v.at, v.parent = o.slots[old].at, len(o.slots)
		o.slots[old] = v
		o.slots = append(o.slots, was)
	default:
		o.slots[old].dead = true
		v.parent = old
		o.live[key] = len(o.slots)
		o.slots = append(o.slots, v)
	}
}

func (o *oracle) nextID() string {
	return string(binary.LittleEndian.AppendUint64(nil, uint64(len(o.slots)))[:o.layout.IDSize])
}

func (o *oracle) raw(r toldRaw) {
	r.at, r.prev = store.Position{File: o.file, Offset: o.data}, o.prev
	o.raws = append(o.raws, r)
	o.prev = o.data
	o.data += o.layout.DataEntry + uint32(len(r.key)+len(r.value))
}

func (o *oracle) delete(key string, at uint32) {
	i, has := o.live[key]
	if !has {
		return
	}
	o.slots[i].dead = true
	delete(o.live, key)
	o.raw(toldRaw{key: key, deleted: true})
}

// goesOn does only the rotation that p begins with; false if it doesn't.
func (o *oracle) goesOn(p op) bool {
	next := o.clone()
	next.do(p)
	if p.kind != opSet || next.file == o.file {
		return false
	}
	o.rotate()
	return true
}

func (o *oracle) rotate() {
	o.file++
	o.data, o.index = o.layout.DataHeader, o.layout.IndexHeader
}

// fataler has the test's methods that a check needs.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// check compares a store with what it should hold. lazy says that old versions may be
// gone.
func (o *oracle) check(t fataler, s *store.Store, lazy bool) {
	t.Helper()
	if why := o.compare(s, lazy); why != "" {
		t.Fatalf("%s", why)
	}
}

// compare describes a store's difference from the oracle; empty: none.
func (o *oracle) compare(s *store.Store, lazy bool) string {
	for _, f := range []func(*store.Store, bool) string{o.compareStats, o.compareLive, o.compareWalk, o.compareOld, o.compareRaw} {
		if why := f(s, lazy); why != "" {
			return why + "; " + o.compareLive(s, lazy)
		}
	}
	return ""
}

func (o *oracle) compareStats(s *store.Store, _ bool) string {
	var want store.Stats
	for key, i := range o.live {
		want.Entries++
		want.KeyBytes += uint64(len(key))
		want.DataBytes += uint64(len(o.slots[i].value))
	}
	got := s.Stats()
	switch {
	case got.Entries != want.Entries || got.KeyBytes != want.KeyBytes || got.DataBytes != want.DataBytes:
		return sprintf("has %d entries, %d bytes of keys, %d of data; want %d, %d, %d",
			got.Entries, got.KeyBytes, got.DataBytes, want.Entries, want.KeyBytes, want.DataBytes)
	case got.File != o.file || got.DataOffset != o.data || got.IndexOffset != o.index:
		return sprintf("goes on at file %d, data %d, index %d; want %d, %d, %d",
			got.File, got.DataOffset, got.IndexOffset, o.file, o.data, o.index)
	case o.sequential && got.Next != uint64(len(o.slots)):
		return sprintf("the next id is %d, want %d", got.Next, len(o.slots))
	}
	return ""
}

func (o *oracle) compareLive(s *store.Store, _ bool) string {
	for key, i := range o.live {
		v, found, err := s.Get([]byte(key))
		if err != nil || !found || string(v) != o.slots[i].value {
			return sprintf("Get(%q) is %d bytes, %t, %v; want the %d bytes of %v", key, len(v), found, err, len(o.slots[i].value), o.slots[i].at)
		}
		e, found, err := s.Lookup([]byte(key))
		if err != nil || !found {
			return sprintf("Lookup(%q): %t, %v", key, found, err)
		}
		if why := o.slots[i].differs(e); why != "" {
			return "Lookup: " + why
		}
	}
	return ""
}

func (v *told) differs(e store.Entry) string {
	value := []byte(v.value)
	if string(e.Key) != v.key || e.Position != v.at || e.Time != v.time || e.Deleted != v.dead ||
		int(e.Length) != len(value) || e.CRC != store.PayloadCRC(value) {
		return sprintf("the entry is %+v, want %q at %v, time %d, dead %t, %d bytes, crc %d",
			e, v.key, v.at, v.time, v.dead, len(value), store.PayloadCRC(value))
	}
	return ""
}

func (o *oracle) compareWalk(s *store.Store, _ bool) string {
	e, found, err := s.First()
	for i := range o.slots {
		if o.slots[i].dead {
			continue
		}
		if err != nil || !found {
			return sprintf("walking ends before %q at %v: %v", o.slots[i].key, o.slots[i].at, err)
		}
		if why := o.slots[i].differs(e); why != "" {
			return "walking: " + why
		}
		e, found, err = s.Next(e)
	}
	if err != nil || found {
		return sprintf("walking goes on behind the end: %+v, %v", e, err)
	}
	e, found, err = s.Last()
	for i := len(o.slots) - 1; i >= 0; i-- {
		if o.slots[i].dead {
			continue
		}
		if err != nil || !found {
			return sprintf("walking back ends before %q at %v: %v", o.slots[i].key, o.slots[i].at, err)
		}
		if why := o.slots[i].differs(e); why != "" {
			return "walking back: " + why
		}
		e, found, err = s.Prev(e)
	}
	if err != nil || found {
		return sprintf("walking back goes on: %+v, %v", e, err)
	}
	return ""
}

// compareOld looks at every version there was by its position.
func (o *oracle) compareOld(s *store.Store, lazy bool) string {
	for i := range o.slots {
		v := &o.slots[i]
		e, found, err := s.At(v.at)
		if err != nil {
			return sprintf("At(%v): %v", v.at, err)
		}
		if lazy && v.dead && (!found || e.Key == nil) {
			continue
		}
		if !found {
			return sprintf("At(%v) finds nothing, want %q, dead %t", v.at, v.key, v.dead)
		}
		if why := v.differs(e); why != "" {
			return sprintf("At(%v): %s", v.at, why)
		}
		if why := o.compareValue(s, i, e, lazy); why != "" {
			return why
		}
	}
	return ""
}

func (o *oracle) compareValue(s *store.Store, i int, e store.Entry, lazy bool) string {
	v := &o.slots[i]
	value, err := s.Value(e)
	if lazy && v.dead && errors.Is(err, store.ErrGone) {
		return ""
	}
	if err != nil || !bytes.Equal(value, []byte(v.value)) {
		return sprintf("Value of %q at %v: %d bytes, %v; want %d", v.key, v.at, len(value), err, len(v.value))
	}
	parent, found, err := s.Parent(e)
	switch {
	case err != nil:
		return sprintf("Parent of %q at %v: %v", v.key, v.at, err)
	case lazy && !found, v.parent < 0 && !found:
		return ""
	case v.parent < 0:
		return sprintf("%q at %v has a parent at %v, want none", v.key, v.at, parent.Position)
	case !found:
		return sprintf("%q at %v has no parent, want the one at %v", v.key, v.at, o.slots[v.parent].at)
	}
	if why := o.slots[v.parent].differs(parent); why != "" {
		return "parent: " + why
	}
	return ""
}

func (o *oracle) compareRaw(s *store.Store, lazy bool) string {
	for _, r := range o.raws {
		got, err := s.Raw(r.at.File, r.at.Offset)
		if lazy && (errors.Is(err, store.ErrGone) || errors.Is(err, store.ErrOffset) || errors.Is(err, store.ErrEOF)) {
			continue
		}
		if err != nil || string(got.Key) != r.key || string(got.Value) != r.value || got.Deleted != r.deleted || got.Previous != r.prev {
			return sprintf("Raw(%v) is %q, %d bytes, deleted %t, previous %d, %v; want %q, %d, %t, %d",
				r.at, got.Key, len(got.Value), got.Deleted, got.Previous, err, r.key, len(r.value), r.deleted, r.prev)
		}
	}
	if _, err := s.Raw(o.file, o.data); !errors.Is(err, store.ErrEOF) {
		return sprintf("Raw behind the end: %v, want ErrEOF", err)
	}
	return ""
}
