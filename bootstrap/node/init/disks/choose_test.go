package disks

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/modules/storage/nodestate"
)

// disk is one by its kernel's name, whose only ID is virtio-NAME.
func disk(name string, kind nodestate.Kind, uuid string) Disk {
	d := Disk{Name: name, IDs: []string{"virtio-" + name}, Bytes: 1 << 34, Holds: nodestate.Found{Kind: kind, UUID: uuid, What: string(kind)}}
	if uuid != "" {
		d.Holds.Pool = "ssd-" + uuid
	}
	return d
}

func id(name string) string { return byID + "/virtio-" + name }

func ids3(names ...string) (out []string) {
	for _, n := range names {
		out = append(out, id(n))
	}
	return out
}

func TestChoose(t *testing.T) {
	empty, state, pool, other := nodestate.Empty, nodestate.State, nodestate.Pool, nodestate.Other
	stick := disk("sdz", empty, "")
	stick.Removable = true
	booted := disk("sdy", other, "")
	booted.Unusable = "the machine was booted from it"
	mark := func(name, disk string) Mark { return Mark{Name: "ssd-" + name, UUID: name, Disk: disk} }
	for name, c := range map[string]struct {
		found   []Disk
		want    Want
		prepare []string
		make    bool
		disk    []string
		wipe    []string
		memory  bool
		problem string
		note    string
	}{
		"no disk": {want: Want{Empty: true, Memory: 4 << 30}, memory: true, note: "in memory"},
		"only the boot medium": {found: []Disk{booted, stick}, want: Want{Empty: true, Memory: 4 << 30}, memory: true,
			note: "/dev/sdz (" + id("sdz") + "): left alone: it is removable"},
		"nothing said": {found: []Disk{disk("vda", empty, ""), disk("vdb", other, "")}, want: Want{Memory: 4 << 30}, memory: true, note: "it is empty: croft.disks=empty"},
		"all empty": {found: []Disk{disk("vda", empty, ""), disk("vdb", other, ""), disk("vdc", empty, "")}, want: Want{Empty: true},
			prepare: ids3("vda", "vdc"), make: true, disk: ids3("vda", "vdc"), note: "/dev/vdb (" + id("vdb") + "): left alone: it holds other"},
		"only others'": {found: []Disk{disk("vda", other, "")}, want: Want{Empty: true}, make: true, problem: "there is no disk"},
		"others' may be wiped": {found: []Disk{disk("vda", other, "")}, want: Want{Empty: true, Wipe: []string{"/dev/vda"}},
			prepare: ids3("vda"), make: true, disk: ids3("vda"), wipe: ids3("vda")},
		"the state, nothing said": {found: []Disk{disk("vda", empty, ""), disk("vdb", state, "s")}, prepare: ids3("vdb"), disk: ids3("vdb")},
		"the state and its pools": {
			found:   []Disk{disk("vda", pool, "a"), disk("vdb", state, "s"), disk("vdc", pool, "foreign")},
			want:    Want{Marks: []Mark{mark("s", id("vdb")), mark("a", "/dev/old"), mark("gone", id("vdx"))}},
			prepare: ids3("vda", "vdb", "vdc"), disk: ids3("vdb", "vda", "vdx"), note: "pool ssd-foreign of another node"},
		"a node whose state is gone": {found: []Disk{disk("vda", empty, ""), disk("vdb", pool, "a")}, want: Want{Empty: true},
			prepare: ids3("vda", "vdb"), make: true, problem: "whose state isn't there"},
		"that disk isn't meant": {found: []Disk{disk("vda", empty, ""), disk("vdb", pool, "a")}, want: Want{Named: []string{"HDD:/dev/vda"}},
			prepare: []string{"HDD:/dev/vda"}, make: true, disk: []string{"HDD:/dev/vda"}, note: "another node"},
		"that pool may be used": {found: []Disk{disk("vda", state, "s"), disk("vdb", pool, "a")}, want: Want{Named: []string{"/dev/vdb"}},
			prepare: []string{"/dev/vdb", id("vda")}, make: true, disk: []string{id("vda"), "/dev/vdb"}},
		"two states": {found: []Disk{disk("vda", state, "s"), disk("vdb", state, "z")}, want: Want{Empty: true},
			prepare: ids3("vda", "vdb"), make: true, problem: "--state"},
		"two states, one meant": {found: []Disk{disk("vda", state, "s"), disk("vdb", state, "z")}, want: Want{StateID: "z"},
			prepare: ids3("vda", "vdb"), disk: ids3("vdb"), note: "the state of another node (UUID s)"},
		"a named one is missing": {found: []Disk{disk("vda", empty, "")}, want: Want{Named: []string{"/dev/vda", "/dev/vdb"}},
			prepare: []string{"/dev/vda", "/dev/vdb"}, make: true, problem: "/dev/vdb (it isn't there)"},
		"a second one is missing": {found: []Disk{disk("vda", state, "s")}, want: Want{Named: []string{"/dev/vda", "/dev/vdb"}},
			prepare: []string{"/dev/vda", "/dev/vdb"}, make: true, disk: []string{"/dev/vda", "/dev/vdb"}},
		"two names of one":      {found: []Disk{disk("vda", empty, "")}, want: Want{Named: []string{"/dev/vda", id("vda")}}, prepare: []string{"/dev/vda"}, make: true, disk: []string{"/dev/vda"}},
		"a damaged pool":        {found: []Disk{disk("vda", empty, ""), disk("vdb", nodestate.Unknown, "d")}, want: Want{Empty: true}, prepare: ids3("vda", "vdb"), make: true, problem: "isn't known"},
		"a named stick":         {found: []Disk{stick}, want: Want{Named: []string{"/dev/sdz"}}, prepare: []string{"/dev/sdz"}, make: true, disk: []string{"/dev/sdz"}},
		"a copy of a pool":      {found: []Disk{disk("vda", state, "s"), disk("vdb", nodestate.Copy, "a"), disk("vdc", nodestate.Copy, "a")}, want: Want{Marks: []Mark{mark("a", id("vdb"))}}, prepare: ids3("vda", "vdb", "vdc"), disk: ids3("vda"), note: "isn't used"},
		"the boot medium named": {found: []Disk{booted}, want: Want{Named: []string{"/dev/sdy"}, Wipe: []string{"/dev/sdz"}}, prepare: []string{"/dev/sdy"}, make: true, problem: "booted from it"},
	} {
		t.Run(name, func(t *testing.T) {
			p := Choose(c.found, c.want)
			if !slices.Equal(p.Prepare, c.prepare) || p.Make != c.make || !slices.Equal(p.Disk, c.disk) {
				t.Errorf("it is %+v", p)
			}
			if c.problem == "" && p.Problem != "" || !strings.Contains(p.Problem, c.problem) || len(c.wipe) > 0 && !slices.Equal(p.Wipe, c.wipe) {
				t.Errorf("the problem is %q, wiped is %q", p.Problem, p.Wipe)
			}
			if (p.MemoryPool == 1<<30) != c.memory || !strings.Contains(strings.Join(p.Notes, "\n"), c.note) {
				t.Errorf("%d bytes are in memory; the notes are %q", p.MemoryPool, p.Notes)
			}
		})
	}
}

func TestSettled(t *testing.T) {
	const quiet = 10 * time.Second
	state, pool := disk("vda", nodestate.State, "s"), disk("vdb", nodestate.Pool, "a")
	strange := disk("vdc", nodestate.State, "z")
	marks := Want{Marks: []Mark{{Name: "ssd-s", UUID: "s"}, {Name: "ssd-a", UUID: "a"}}}
	type step struct {
		at    time.Duration
		found []Disk
		want  bool
	}
	for name, c := range map[string]struct {
		want  Want
		steps []step
	}{
		"nothing comes":      {Want{}, []step{{0, nil, false}, {quiet - 1, nil, false}, {quiet, nil, true}}},
		"one comes late":     {Want{Empty: true}, []step{{9 * time.Second, []Disk{disk("vdx", nodestate.Empty, "")}, false}, {18 * time.Second, []Disk{disk("vdx", nodestate.Empty, "")}, false}, {19 * time.Second, []Disk{disk("vdx", nodestate.Empty, "")}, true}}},
		"the state":          {Want{Empty: true}, []step{{time.Second, []Disk{state}, true}}},
		"a pool comes":       {marks, []step{{time.Second, []Disk{state}, false}, {8 * time.Second, []Disk{state, pool}, true}}},
		"a pool never comes": {marks, []step{{time.Second, []Disk{state}, false}, {11 * time.Second, []Disk{state}, true}}},
		"a named one comes":  {Want{Named: []string{"/dev/vdb"}}, []step{{time.Second, []Disk{state}, false}, {2 * time.Second, []Disk{state, pool}, true}}},
		"two states":         {Want{}, []step{{time.Second, []Disk{state, strange}, false}, {11 * time.Second, []Disk{state, strange}, true}}},
		"that state":         {Want{StateID: "z"}, []step{{time.Second, []Disk{state}, false}, {2 * time.Second, []Disk{state, strange}, true}}},
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Unix(1e9, 0)
			h := Begin(begin)
			for _, s := range c.steps {
				now := begin.Add(s.at)
				h = h.Seen(s.found, c.want, now)
				if got := Settled(h, s.found, c.want, quiet, now); got != s.want {
					t.Errorf("after %s it is %t", s.at, got)
				}
			}
		})
	}
}

// TestWipeNamesOnlyDisksThatAreUsed: croftd refuses others, and the whole node with them.
func TestWipeNamesOnlyDisksThatAreUsed(t *testing.T) {
	p := Choose([]Disk{disk("vda", nodestate.Empty, ""), disk("vdb", nodestate.Other, "")}, Want{Empty: true, Wipe: []string{"/dev/vdb", "/dev/gone"}})
	if want := ids3("vdb"); !slices.Equal(p.Wipe, want) {
		t.Errorf("wiped are %q, want %q", p.Wipe, want)
	}
	if !slices.ContainsFunc(p.Notes, func(note string) bool { return strings.HasPrefix(note, "/dev/gone: ") }) {
		t.Errorf("the notes are %q, want one about /dev/gone", p.Notes)
	}
}
