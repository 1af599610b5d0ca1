package plane

import (
	"maps"

	"github.com/cosi-project/runtime/pkg/resource"
)

// place is where a resource is in a database.
type place struct {
	kind resource.Type
	id   resource.ID
}

// change is the newest of what has happened to a resource.
type change struct {
	number uint64
	// sealed is its content; nothing when it was removed.
	sealed []byte
}

// changes are what a database doesn't have yet, and what it has.
type changes struct {
	// number is the last change's, stored that of the last one that the database has, or that was made good by a newer one there.
	number, stored uint64
	// pending waits for a transaction; writing is in one now, nil without one.
	pending, writing map[place]change
	// filed are the resources that the database has, or may have.
	filed map[place]bool
	// unnoted waits for the journal, the oldest first. When it would be too much, there is nothing, and overrun is set.
	unnoted []entry
	overrun bool
}

// mostUnnoted bounds what waits for a journal that can't be written at the moment.
const mostUnnoted = 2 * mostEvents

// batch is the changes of one transaction: all up to a number, but those that an earlier transaction or a newer change replaced.
type batch struct {
	of map[place]change
	to uint64
}

func newChanges() changes {
	return changes{pending: map[place]change{}, filed: map[place]bool{}}
}

// replay adds an entry of the journal.
func (c *changes) replay(e entry) {
	c.number = max(c.number, e.Number)
	c.pending[place{e.Kind, e.ID}] = change{e.Number, e.Sealed}
}

// put adds a content.
func (c *changes) put(at place, sealed []byte) {
	c.number++
	c.pending[at] = change{c.number, sealed}
	c.note(at)
}

// remove adds a removal. One of a resource that never came to the database needs no transaction, but the journal may have it.
func (c *changes) remove(at place) {
	_, waits := c.pending[at]
	if !waits && !c.filed[at] {
		return
	}
	c.number++
	c.pending[at] = change{c.number, nil}
	c.note(at)
	if !c.filed[at] {
		delete(c.pending, at)
	}
}

func (c *changes) note(at place) {
	c.unnoted = append(c.unnoted, entry{c.pending[at].number, at.kind, at.id, c.pending[at].sealed})
	if len(c.unnoted) > mostUnnoted {
		c.unnoted, c.overrun = nil, true
	}
}

// noted takes what the journal is to get; not whole when there was too much.
func (c *changes) noted() (fresh []entry, whole bool) {
	fresh, whole = c.unnoted, !c.overrun
	c.unnoted, c.overrun = nil, false
	return fresh, whole
}

// clean reports whether the database has all.
func (c *changes) clean() bool {
	return len(c.pending) == 0 && c.writing == nil && c.number == c.stored
}

// take begins a transaction.
func (c *changes) take() batch {
	c.writing, c.pending = c.pending, map[place]change{}
	for at, is := range c.writing {
		if is.sealed != nil {
			c.filed[at] = true
		}
	}
	return batch{c.writing, c.number}
}

// done ends a transaction that was carried out. What it has removed needs no other removal.
func (c *changes) done(to uint64) {
	c.stored = to
	for at, is := range c.writing {
		if is.sealed != nil {
			continue
		}
		delete(c.filed, at)
		if newer, waits := c.pending[at]; waits && newer.sealed == nil {
			delete(c.pending, at)
		}
	}
	c.writing = nil
}

// undone ends a transaction that failed: all of it is pending again, but what is newer by now, and removals of what the database hasn't got.
func (c *changes) undone(missing map[place]bool) {
	for at, is := range c.writing {
		if _, newer := c.pending[at]; newer {
			continue
		}
		if is.sealed == nil && missing[at] {
			delete(c.filed, at)
			continue
		}
		c.pending[at] = is
	}
	c.writing = nil
}

// left is all that isn't known to be in the database.
func (c *changes) left() []entry {
	all := maps.Clone(c.writing)
	if all == nil {
		all = map[place]change{}
	}
	maps.Copy(all, c.pending)
	var out []entry
	for at, is := range all {
		out = append(out, entry{is.number, at.kind, at.id, is.sealed})
	}
	return out
}
