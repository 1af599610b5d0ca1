// Package vouched knows of which networks nothing has changed since they were looked at,
// as long as the kernel's notices of changes (package events) are unbroken, and whom to
// tell of a change. It reads nothing but the IDs of namespaces, and changes no network.
package vouched

import (
	"slices"
	"sync"
	"time"

	"github.com/croft-edge/croft/modules/network/events"
	"github.com/croft-edge/croft/pkg/backoff"
	"github.com/croft-edge/croft/pkg/netns"
)

// verifyEvery is the age at which a network is looked at although nothing has changed, in
// case that a notice of the kernel's is missing for a reason that nobody has thought of.
const verifyEvery = 10 * time.Minute

// Places are where a network is.
type Places struct {
	// Namespaces are the files that keep its own namespace, which is the first, and its
	// members'.
	Namespaces []string
	// Outside are the names of its links in the process's own namespace.
	Outside []string
	// Owner is the ID of its reservation.
	Owner string
	// Ports are the IDs of the reservations to tell beside Owner when a link of that name
	// in the network's own namespace changes.
	Ports map[string]string
}

// Mark is a time in a network's history.
type Mark struct{ epoch, changes uint64 }

// Book holds the watched networks. It is safe for concurrent use.
type Book struct {
	tell func(ids ...string)
	lost func()

	mu sync.Mutex
	// live is whether all changes are heard; epoch counts the times that this began or ended.
	live  bool
	epoch uint64
	all   map[string]*entry
	// namespaces are the watched namespaces' owners by their IDs, ids these IDs by inode.
	namespaces map[int]place
	ids        map[uint64]int
	outside    map[string]*entry
}

// entry is one network.
type entry struct {
	places  Places
	inode   uint64
	changes uint64
	// fine is whether it was as it should be at its last look, and nothing has changed
	// since; until is when it is looked at again all the same.
	fine  bool
	until time.Time
}

// place is a namespace of a network; inner is whether it is the network's own.
type place struct {
	of    *entry
	inner bool
}

// New makes a Book that calls tell with the owners of what has changed, and lost when
// anything may have.
func New(tell func(ids ...string), lost func()) *Book {
	return &Book{
		tell: tell, lost: lost, all: map[string]*entry{}, namespaces: map[int]place{}, ids: map[uint64]int{}, outside: map[string]*entry{},
	}
}

// Watch begins to watch a network, or goes on with these places. ok is false when a part of
// it can't be watched; else the network may be kept by Keep as it is looked at from now on.
func (b *Book) Watch(id string, p Places) (m Mark, ok bool) {
	ids, inodes, ok := b.identify(p.Namespaces)
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.all[id]
	if e == nil {
		e = &entry{}
		b.all[id] = e
	}
	b.unlist(e)
	e.places = p
	for _, name := range p.Outside {
		b.outside[name] = e
	}
	for i, n := range ids {
		b.ids[inodes[i]] = n
		if other, taken := b.namespaces[n]; taken && other.of != e {
			ok = false // one namespace can't be two networks'
			continue
		}
		b.namespaces[n] = place{of: e, inner: i == 0}
	}
	if e.inode = 0; len(inodes) > 0 {
		e.inode = inodes[0]
	}
	return Mark{b.epoch, e.changes}, ok && b.live
}

// identify finds the IDs and inodes of namespaces, as far as they are there.
func (b *Book) identify(paths []string) (ids []int, inodes []uint64, all bool) {
	for _, path := range paths {
		inode, err := netns.Inode(path)
		if err != nil {
			return ids, inodes, false
		}
		b.mu.Lock()
		id, known := b.ids[inode]
		b.mu.Unlock()
		if !known {
			if id, err = events.IDOf(path); err != nil || id == events.Own {
				return ids, inodes, false
			}
		}
		ids, inodes = append(ids, id), append(inodes, inode)
	}
	return ids, inodes, true
}

// unlist forgets where e is.
func (b *Book) unlist(e *entry) {
	for n, p := range b.namespaces {
		if p.of == e {
			delete(b.namespaces, n)
		}
	}
	for _, name := range e.places.Outside {
		if b.outside[name] == e {
			delete(b.outside, name)
		}
	}
}

// Fine reports whether nothing of a kept network has changed.
func (b *Book) Fine(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.all[id]
	return e != nil && b.live && e.fine && time.Now().Before(e.until)
}

// Keep notes that a network is as it should be by a look that began at m.
func (b *Book) Keep(id string, m Mark) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.all[id]; e != nil && b.live && b.epoch == m.epoch && e.changes == m.changes {
		e.fine, e.until = true, time.Now().Add(backoff.Around(verifyEvery))
	}
}

// Changing notes that the module itself changes a network.
func (b *Book) Changing(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.all[id]; e != nil {
		e.changed()
	}
}

// Drop forgets a network.
func (b *Book) Drop(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.all[id]; e != nil {
		b.unlist(e)
		delete(b.all, id)
	}
}

func (e *entry) changed() {
	e.changes++
	e.fine = false
}

// Outside reports whether a network has a link of that name in the process's own namespace.
func (b *Book) Outside(link string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.outside[link] != nil
}

// Began notes that all changes are heard from now on.
func (b *Book) Began() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.live = true
	b.epoch++
	clear(b.ids) // an ID may have ended meanwhile, and its inode may be another namespace's
	b.forget()
}

// Lost notes that changes may not have been heard, and tells that.
func (b *Book) Lost() {
	b.mu.Lock()
	b.live = false
	b.epoch++
	b.forget()
	b.mu.Unlock()
	b.lost()
}

// forget forgets what was seen of all networks.
func (b *Book) forget() {
	for _, e := range b.all {
		e.changed()
	}
}

// Changed notes and tells a change.
func (b *Book) Changed(c events.Event) {
	if ids := b.note(c); len(ids) > 0 {
		b.tell(ids...)
	}
}

// note returns whom to tell of a change.
func (b *Book) note(c events.Event) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.namespaces[c.Namespace]
	if c.Namespace == events.Own {
		p = place{of: b.outside[c.Link]}
	}
	if c.Ended {
		delete(b.namespaces, c.Namespace)
		for inode, id := range b.ids {
			if id == c.Namespace {
				delete(b.ids, inode)
			}
		}
	}
	if p.of == nil {
		return nil
	}
	p.of.changed()
	ids := []string{p.of.places.Owner}
	if port := p.of.places.Ports[c.Link]; p.inner && c.Link != "" && port != "" {
		ids = append(ids, port)
	}
	return ids
}

// Mounts tells the networks whose namespace isn't kept by its file any more. It is to be
// called after a change of the mount table.
func (b *Book) Mounts() {
	type kept struct {
		path  string
		inode uint64
		e     *entry
	}
	b.mu.Lock()
	all := make([]kept, 0, len(b.all))
	for _, e := range b.all {
		if e.inode != 0 {
			all = append(all, kept{e.places.Namespaces[0], e.inode, e})
		}
	}
	b.mu.Unlock()
	var gone []*entry
	for _, k := range all {
		if inode, err := netns.Inode(k.path); err != nil || inode != k.inode {
			gone = append(gone, k.e)
		}
	}
	var ids []string
	b.mu.Lock()
	for _, e := range gone {
		if e.inode = 0; !slices.Contains(ids, e.places.Owner) {
			ids = append(ids, e.places.Owner)
		}
		e.changed()
	}
	b.mu.Unlock()
	if len(ids) > 0 {
		b.tell(ids...)
	}
}
