package disks

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/modules/storage/nodestate"
)

// plugged is a disk of a machine, and what is on it.
type plugged struct {
	name string
	in   bool
	kind nodestate.Kind
	uuid string
	// node is whose pool is on it; 0 for nobody's.
	node int
}

// farm is a machine whose disks come and go.
type farm struct {
	t     *rapid.T
	disks []*plugged
	made  int
	// marks are the pools of each node, in its state.
	marks map[int][]Mark
	// node is who the machine was last; 0 for nobody.
	node int
}

func (m *farm) found() (out []Disk) {
	for i, d := range m.disks {
		if d.in {
			found := disk(fmt.Sprintf("vd%c", 'a'+i), d.kind, d.uuid)
			found.IDs = []string{d.name}
			out = append(out, found)
		}
	}
	return out
}

// at is the disk that a path names now.
func (m *farm) at(path string) *plugged {
	for i, d := range m.found() {
		if d.is(plain(path)) {
			n := 0
			for _, p := range m.disks {
				if p.in {
					if n == i {
						return p
					}
					n++
				}
			}
		}
	}
	return nil
}

// format makes a pool as croftd does: of an empty disk, or of one that may be erased; never of any other.
func (m *farm) format(d *plugged, kind nodestate.Kind, wiped bool) {
	if d.kind != nodestate.Empty && (d.kind != nodestate.Other || !wiped) {
		m.t.Fatalf("%s is formatted, and holds %s", d.name, d.kind)
	}
	m.made++
	d.kind, d.uuid, d.node = kind, fmt.Sprint("u", m.made), m.node
}

// boot does what process 1 does.
func (m *farm) boot(want Want) {
	held := false
	for _, d := range m.disks {
		held = held || d.in && d.kind == nodestate.State && d.node == m.node && m.node != 0
	}
	before := m.node
	plan := Choose(m.found(), want)
	if plan.Problem != "" {
		return
	}
	if plan.MemoryPool > 0 || plan.First == "" {
		if held {
			m.t.Fatalf("the state isn't used, and is there: %+v", plan)
		}
		return
	}
	first := m.at(plan.First)
	switch first.kind {
	case nodestate.State:
		m.node = first.node
	case nodestate.Unfinished:
		m.made++
		m.node, first.kind, first.node = m.made, nodestate.State, m.made
	default:
		m.node = m.made + 1
		m.format(first, nodestate.State, contains(want.Wipe, first.name))
	}
	if held && m.node != before && want.StateID == "" {
		m.t.Fatalf("node %d became %d, and its state is there: %+v", before, m.node, plan)
	}
	m.start(want)
}

// start has croftd open the pools.
func (m *farm) start(want Want) {
	want.Marks = m.marks[m.node]
	plan := Choose(m.found(), want)
	if plan.Problem != "" {
		m.t.Fatalf("with the state there: %s", plan.Problem)
	}
	for _, path := range plan.Disk {
		d := m.at(path)
		if d == nil {
			continue
		}
		switch d.kind {
		case nodestate.Empty, nodestate.Other:
			if d.kind == nodestate.Other && !contains(plan.Wipe, plain(path)) {
				continue
			}
			m.format(d, nodestate.Pool, true)
		case nodestate.Unfinished:
			d.kind, d.node = nodestate.Pool, m.node
		}
		own := slices.ContainsFunc(m.marks[m.node], func(k Mark) bool { return k.UUID == d.uuid }) // it was named once
		if d.node != m.node && !own && len(want.Named) == 0 {
			m.t.Fatalf("node %d uses %s of node %d", m.node, path, d.node)
		}
		m.marks[m.node] = append(m.marks[m.node], Mark{Name: d.uuid, UUID: d.uuid, Disk: plain(path)})
	}
}

func contains(paths []string, part string) bool {
	for _, p := range paths {
		if p == part || p == byID+"/"+part {
			return true
		}
	}
	return false
}

// TestNoBootsMakeAnotherNode wants no sequence of boots, between which disks come and go and are exchanged, emptied and filled, to format
// a disk with anything on it, or to make another node of the machine while the disk with its state is there.
func TestNoBootsMakeAnotherNode(t *testing.T) {
	kinds := []nodestate.Kind{nodestate.Empty, nodestate.Empty, nodestate.Other, nodestate.Unfinished, nodestate.Unknown}
	rapid.Check(t, func(t *rapid.T) {
		m := &farm{t: t, marks: map[int][]Mark{}}
		for i := range 4 {
			d := &plugged{name: fmt.Sprint("virtio-", i), in: rapid.Bool().Draw(t, "in"), kind: rapid.SampledFrom(kinds).Draw(t, "kind")}
			if d.kind == nodestate.Unfinished {
				m.made++
				d.uuid = fmt.Sprint("u", m.made)
			}
			m.disks = append(m.disks, d)
		}
		some := rapid.SampledFrom([]string{"virtio-0", "virtio-1", "virtio-2", "virtio-3"})
		t.Repeat(map[string]func(*rapid.T){
			"plug": func(t *rapid.T) { d := rapid.SampledFrom(m.disks).Draw(t, "disk"); d.in = !d.in },
			"swap": func(t *rapid.T) { m.disks = append(m.disks[1:], m.disks[0]) },
			"empty": func(t *rapid.T) {
				d := rapid.SampledFrom(m.disks).Draw(t, "disk")
				d.kind, d.uuid, d.node = nodestate.Empty, "", 0
			},
			"fill": func(t *rapid.T) {
				d := rapid.SampledFrom(m.disks).Draw(t, "disk")
				d.kind, d.uuid, d.node = nodestate.Other, "", 0
			},
			"none":   func(*rapid.T) { m.boot(Want{Memory: 1 << 30}) },
			"all":    func(*rapid.T) { m.boot(Want{Memory: 1 << 30, Empty: true}) },
			"named":  func(t *rapid.T) { m.boot(Want{Named: []string{byID + "/" + some.Draw(t, "disk")}}) },
			"wiping": func(t *rapid.T) { m.boot(Want{Empty: true, Wipe: []string{byID + "/" + some.Draw(t, "disk")}}) },
		})
	})
}
