package engine

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/drift"
	"github.com/croft-edge/croft/provision/store/durable"
)

// simClock is the true time and the node's view of it. At level Remove the node
// knows the true time, below it the explorer's word, or an untrusted wall clock.
// Its uptime is true except for the part that a power cut makes it forget.
type simClock struct {
	now   time.Time
	level clock.Level
	// lie is how far the time that the node is told is from the truth.
	lie time.Duration
	up  time.Duration
	// floor had certainly passed when the uptime was floorUp.
	floor   time.Time
	floorUp time.Duration
}

func (c *simClock) Read() clock.Reading {
	now := c.now
	if c.level != clock.Remove {
		now = now.Add(c.lie)
	} else {
		c.floor, c.floorUp = c.now, c.up
	}
	return clock.Reading{Now: now, Level: c.level, Uptime: c.up}
}

func (c *simClock) Now() (time.Time, bool) {
	r := c.Read()
	return r.Now, r.Level >= clock.Stop
}

func (c *simClock) Floor() time.Time {
	if c.floor.IsZero() {
		return time.Time{}
	}
	return c.floor.Add(c.up - c.floorUp)
}

func (c *simClock) pass(d time.Duration) { c.now, c.up = c.now.Add(d), c.up+d }

// vouched is the clock that dates a store's birth, without the explorer's word.
type vouched struct{ *simClock }

func (v vouched) Now() (time.Time, bool) {
	r := v.Read()
	return r.Now, r.Level == clock.Remove
}

// simDisk is a disk in memory. The power may be cut at any of its durable steps:
// after that it does nothing more until it is started again.
type simDisk struct {
	files map[string][]byte
	// steps counts the durable steps. The power is cut when left comes to zero, before
	// that step or, with after, right behind it; it never is while left is negative.
	steps int
	left  int
	after bool
	dead  bool
	// full is whether writes fail for lack of space.
	full bool
}

func newSimDisk() *simDisk { return &simDisk{files: map[string][]byte{}, left: -1} }

// cut has the power cut at one of the next steps.
func (d *simDisk) cut(in int, after bool) { d.left, d.after = in, after }

func (d *simDisk) step(do func()) bool {
	if d.dead {
		return false
	}
	last := d.left == 0
	if d.left >= 0 {
		d.left--
	}
	if last && !d.after {
		d.dead = true
		return false
	}
	do()
	d.steps++
	d.dead = last
	return !last
}

func (d *simDisk) off() error { return node.Errorf(node.Transient, "cannot write: the power is off") }

func (d *simDisk) Put(objects ...durable.Object) error {
	if d.full && !d.dead {
		return node.Errorf(node.NoSpace, "cannot write: the disk is full")
	}
	for _, o := range objects {
		if err := durable.CheckName(o.Name); err != nil {
			return err
		}
	}
	for _, o := range objects {
		if !d.step(func() { d.files[o.Name] = slices.Clone(o.Data) }) {
			return d.off()
		}
	}
	return nil
}

func (d *simDisk) Get(name string) ([]byte, error) {
	file, ok := d.files[name]
	if !ok {
		return nil, node.Errorf(node.NotExist, "cannot read %s: there is none", name)
	}
	return file, nil
}

func (d *simDisk) Delete(names ...string) error {
	for _, name := range slices.Sorted(slices.Values(names)) {
		if !d.step(func() { delete(d.files, name) }) {
			return d.off()
		}
	}
	return nil
}

func (d *simDisk) Move(from, to string) error {
	file, err := d.Get(from)
	if err == nil && !d.step(func() { delete(d.files, from); d.files[to] = file }) {
		return d.off()
	}
	return err
}

func (d *simDisk) List(folder string) ([]string, error) {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(d.files)) {
		if at, _, below := strings.Cut(name, "/"); below && at == folder || !below && folder == "" {
			out = append(out, name)
		}
	}
	return out, nil
}

func (d *simDisk) Close() error { return nil }

// simBook keeps the orphans on the simulated disk's side: it outlives a power cut.
type simBook struct{ orphans []drift.Orphan }

func (b *simBook) Load() ([]drift.Orphan, error) { return slices.Clone(b.orphans), nil }

func (b *simBook) Save(orphans []drift.Orphan) error {
	b.orphans = slices.Clone(orphans)
	return nil
}
