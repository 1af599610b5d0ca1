package disks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/croft-edge/croft/modules/storage/nodestate"
)

// Want is what the operator wants, and what is known of the node.
type Want struct {
	// Empty makes pools of all empty disks (croft.disks=empty).
	Empty bool
	// Named are disks to make pools of (croft.disks), each may have a type before it, as SSD:/dev/sda.
	Named []string
	// Wipe are disks that may be erased (croft.wipe-disk).
	Wipe []string
	// StateID is the UUID of the pool with this node's state, where several have one (croft.state).
	StateID string
	// Marks are the pools of the node, once its state is there.
	Marks []Mark
	// Memory is the machine's, in bytes.
	Memory uint64
}

// Mark is a pool that the node has.
type Mark struct {
	Name, UUID string
	// Disk is the path of its disk at the time.
	Disk string
}

// Plan is what is done with the disks.
type Plan struct {
	// Prepare are the disks that `croftd storage prepare` gets by --disk, in this order. Make is whether it may make a first pool; else it
	// gets --existing.
	Prepare []string
	Make    bool
	// First is the disk that has the node's state, or gets it.
	First string
	// Disk and Wipe are croftd's settings of these names.
	Disk, Wipe []string
	// MemoryPool is the size in bytes of a pool in memory; 0 unless there is no disk, and the state lies in memory, too.
	MemoryPool uint64
	// Problem is why the node can't be started with these disks; empty if it can.
	Problem string
	// Notes are for the console: each disk, and what becomes of it.
	Notes []string
}

// memoryPart of the memory is for a pool where there is no disk, and as much for containers' images: the rest is for the system and workloads.
const memoryPart = 4

// chooser makes a plan.
type chooser struct {
	found []Disk
	want  Want
	plan  Plan
	// used are the names of the disks of croftd's setting.
	used map[string]bool
	wipe []string
}

// Choose decides what is done with the disks that were found.
func Choose(found []Disk, want Want) Plan {
	c := &chooser{found: found, want: want, used: map[string]bool{}}
	c.translateWipe()
	if c.without() {
		c.plan.MemoryPool = want.Memory / memoryPart >> 20 << 20
		c.note("the node has no disk: its state is in memory, and lost when the machine stops")
		c.noteOthers()
		return c.plan
	}
	c.prepare()
	c.settings()
	c.noteOthers()
	return c.plan
}

func (c *chooser) note(format string, args ...any) {
	c.plan.Notes = append(c.plan.Notes, fmt.Sprintf(format, args...))
}

// plain is a disk's path without its type.
func plain(path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, "SSD:"), "HDD:")
}

// of finds the disk that a path is of.
func (c *chooser) of(path string) (Disk, bool) {
	i := slices.IndexFunc(c.found, func(d Disk) bool { return d.is(plain(path)) })
	if i < 0 {
		return Disk{}, false
	}
	return c.found[i], true
}

// naming is how the operator has named a disk, with its type; empty if they haven't.
func (c *chooser) naming(d Disk) string {
	i := slices.IndexFunc(c.want.Named, func(path string) bool { return d.is(plain(path)) })
	if i < 0 {
		return ""
	}
	return c.want.Named[i]
}

// path is how croftd is told of a disk: as the operator names it, or as when its pool was made, or by the name that stays.
func (c *chooser) path(d Disk) string {
	if named := c.naming(d); named != "" {
		return named
	}
	for _, m := range c.want.Marks {
		if m.UUID == d.Holds.UUID && m.UUID != "" && d.is(m.Disk) {
			return m.Disk
		}
	}
	return d.Path()
}

// translateWipe names the disks that may be erased as croftd knows them.
func (c *chooser) translateWipe() {
	for _, path := range c.want.Wipe {
		if d, ok := c.of(path); ok {
			c.wipe = append(c.wipe, plain(c.path(d)))
		} else {
			c.wipe = append(c.wipe, plain(path))
		}
	}
}

func (c *chooser) wiped(d Disk) bool { return slices.Contains(c.wipe, plain(c.path(d))) }

// mayHold reports whether a disk may have something of a node of croft.
func mayHold(d Disk) bool {
	switch d.Holds.Kind {
	case nodestate.State, nodestate.Pool, nodestate.Unknown, nodestate.Copy:
		return d.Unusable == ""
	}
	return false
}

// free reports whether a pool may be made of a disk that the operator hasn't named.
func free(d Disk) bool {
	return d.Unusable == "" && !d.Removable && (d.Holds.Kind == nodestate.Empty || d.Holds.Kind == nodestate.Unfinished)
}

// without reports whether the node runs without disks: none is there that it could use or might have used, and none is asked for.
func (c *chooser) without() bool {
	if len(c.want.Named) > 0 || c.want.StateID != "" || len(c.want.Marks) > 0 {
		return false
	}
	for _, d := range c.found {
		switch {
		case mayHold(d), c.want.Empty && c.wiped(d):
			return false
		case c.want.Empty && d.Unusable == "" && !d.Removable:
			return false
		}
	}
	return true
}

// prepare chooses among the disks that may have the state, and those that may get it.
func (c *chooser) prepare() {
	var holds []nodestate.Found
	add := func(path string, f nodestate.Found) {
		if f.Disk = plain(path); !slices.Contains(c.plan.Prepare, path) {
			c.plan.Prepare, holds = append(c.plan.Prepare, path), append(holds, f)
		}
	}
	for _, path := range c.want.Named {
		d, there := c.of(path)
		switch {
		case !there:
			add(path, nodestate.Found{Kind: nodestate.Unknown, What: "it isn't there"})
		case d.Unusable != "":
			add(path, nodestate.Found{Kind: nodestate.Other, What: d.Unusable})
		default:
			add(c.path(d), d.Holds)
		}
	}
	for _, d := range c.found {
		switch {
		case d.Unusable != "" || c.naming(d) != "":
		case d.Holds.Kind == nodestate.State,
			len(c.want.Named) == 0 && mayHold(d),
			c.want.Empty && (free(d) || c.wiped(d)):
			add(c.path(d), d.Holds)
		}
	}
	c.plan.Make = c.want.Empty || len(c.want.Named) > 0
	chosen, err := nodestate.Choose(holds, nodestate.Want{UUID: c.want.StateID, Make: c.plan.Make, Wipe: c.wipe})
	if err != nil {
		c.plan.Problem = err.Error()
		return
	}
	c.plan.First = c.plan.Prepare[chosen]
}

// settings makes croftd's settings: the first disk, those that are named or may be used, and those of the node's pools wherever they are now.
func (c *chooser) settings() {
	if c.plan.Problem != "" {
		return
	}
	c.use(c.plan.First)
	for _, path := range c.want.Named {
		if d, there := c.of(path); !there || d.Holds.Kind != nodestate.Copy {
			c.use(path)
		}
	}
	for _, m := range c.want.Marks {
		i := slices.IndexFunc(c.found, func(d Disk) bool { return m.UUID != "" && d.Holds.UUID == m.UUID })
		switch {
		case i >= 0 && c.found[i].Holds.Kind == nodestate.Copy:
			c.note("pool %s isn't used: %s holds %s", m.Name, c.found[i].Device(), c.found[i].Holds.What)
		case i >= 0 && c.found[i].Unusable == "":
			c.use(c.path(c.found[i]))
		default:
			c.missing(m)
		}
	}
	for _, d := range c.found {
		if c.want.Empty && d.Unusable == "" && (free(d) || c.wiped(d) && d.Holds.Kind == nodestate.Other) {
			c.use(c.path(d))
		}
	}
	c.plan.Wipe = slices.DeleteFunc(slices.Clone(c.wipe), func(path string) bool {
		used := slices.ContainsFunc(c.plan.Disk, func(disk string) bool { return plain(disk) == path })
		if !used {
			c.note("%s: named in croft.wipe-disk, but the node doesn't use it: it isn't erased", path)
		}
		return !used // croftd refuses it
	})
}

// missing says that a pool isn't there. croftd, which says so too, gets its disk's name, unless another pool is there now: croftd would
// take that for one that it is given.
func (c *chooser) missing(m Mark) {
	c.note("pool %s isn't there: it was on %s", m.Name, m.Disk)
	d, there := c.of(m.Disk)
	if m.Disk != "" && (!there || d.Holds.Kind == nodestate.Empty || d.Holds.Kind == nodestate.Other) {
		c.use(m.Disk)
	}
}

// use adds a disk to croftd's setting, once, whatever its names.
func (c *chooser) use(path string) {
	key := plain(path)
	d, there := c.of(path)
	if there {
		key = d.Device()
	}
	if c.used[key] {
		return
	}
	c.used[key] = true
	c.plan.Disk = append(c.plan.Disk, path)
	if there {
		c.note("%s (%s): used%s", d.Device(), plain(path), map[bool]string{true: ", has the node's state"}[path == c.plan.First])
	}
}

// noteOthers says of each disk that is left alone why it is.
func (c *chooser) noteOthers() {
	for _, d := range c.found {
		if !c.used[d.Device()] {
			c.note("%s (%s): left alone: %s", d.Device(), d.Path(), c.why(d))
		}
	}
}

func (c *chooser) why(d Disk) string {
	switch {
	case d.Unusable != "":
		return d.Unusable
	case c.plan.Problem != "":
		return c.holds(d) + "; the node waits"
	case d.Holds.Kind == nodestate.State:
		return "it has the state of another node (UUID " + d.Holds.UUID + ")"
	case d.Holds.Kind == nodestate.Pool:
		return "it has pool " + d.Holds.Pool + " of another node: name the disk in croft.disks to use it"
	case d.Holds.Kind == nodestate.Empty || d.Holds.Kind == nodestate.Unfinished:
		if d.Removable && c.want.Empty {
			return "it is removable: name it in croft.disks to make a pool of it"
		}
		return "it is empty: croft.disks=empty makes a pool of it"
	}
	if d.Holds.Kind != nodestate.Other {
		return c.holds(d)
	}
	return c.holds(d) + ": name it in croft.disks and croft.wipe-disk to erase it"
}

func (c *chooser) holds(d Disk) string { return "it holds " + d.Holds.What }
