package vm

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/croft-edge/croft/modules/vm/machine"
	"github.com/croft-edge/croft/pkg/carrier"
	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
)

// table has all VMs of the node. Operations on one VM come one after the other; reading its record waits for none.
type table struct {
	mu  sync.Mutex
	all map[string]*entry
	// most bounds the VMs.
	most limit.Limit
}

func newTable(most limit.Limit) *table { return &table{all: map[string]*entry{}, most: most} }

// entry is one VM. Whoever holds it changes it; table.mu guards the record.
type entry struct {
	id string
	// turn has a token while nobody holds the entry.
	turn chan struct{}
	// There is no record before Run has made one, and after Delete has removed it.
	record machine.Record
	exists bool
	// process watches the running QEMU; timer starts it again. Both belong to the holder.
	process *carrier.Process
	timer   *time.Timer
}

// hold waits for a VM's turn, until ctx is done. release follows.
func (t *table) hold(ctx context.Context, id string) (*entry, error) {
	for {
		t.mu.Lock()
		e := t.all[id]
		if e == nil {
			e = &entry{id: id, turn: make(chan struct{}, 1)}
			e.turn <- struct{}{}
			t.all[id] = e
		}
		t.mu.Unlock()
		select {
		case <-ctx.Done():
			t.forget(e)
			return nil, node.Errorf(node.Busy, "cannot wait for the other operation on VM %s: %w", id, ctx.Err())
		case <-e.turn:
		}
		t.mu.Lock()
		same := t.all[id] == e
		t.mu.Unlock()
		if same {
			return e, nil
		}
		e.turn <- struct{}{}
	}
}

// release ends a hold.
func (t *table) release(e *entry) {
	t.mu.Lock()
	if !e.exists && t.all[e.id] == e {
		delete(t.all, e.id)
	}
	t.mu.Unlock()
	e.turn <- struct{}{}
}

// forget removes an entry that a call made and nobody holds.
func (t *table) forget(e *entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !e.exists && t.all[e.id] == e && len(e.turn) == 1 {
		delete(t.all, e.id)
	}
}

// set replaces the record of a held entry.
func (t *table) set(e *entry, r machine.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e.record, e.exists = r, true
}

// remove ends a held entry's existence.
func (t *table) remove(e *entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e.record, e.exists = machine.Record{}, false
}

// read returns a VM's record.
func (t *table) read(id string) (machine.Record, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.all[id]
	if e == nil || !e.exists {
		return machine.Record{}, false
	}
	return e.record, true
}

// records are those of all VMs, by ID.
func (t *table) records() []machine.Record {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]machine.Record, 0, len(t.all))
	for _, e := range t.all {
		if e.exists {
			out = append(out, e.record)
		}
	}
	slices.SortFunc(out, func(a, b machine.Record) int { return strings.Compare(a.Spec.ID, b.Spec.ID) })
	return out
}

// vms bounds the VMs of a node, and with them the user IDs that they run as.
var vms = limit.Limit{Name: "vms", Per: "user", Each: 64, Total: 1024}

// create makes the record of a held entry, with a user ID that no other VM has. NoSpace when the user or the node has as
// many VMs as the limit allows.
func (t *table) create(e *entry, spec node.VMSpec) (machine.Record, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	taken, users := map[uint32]bool{}, int64(0)
	for _, other := range t.all {
		if !other.exists {
			continue
		}
		taken[other.record.UID] = true
		if other.record.Spec.User == spec.User {
			users++
		}
	}
	if users >= t.most.Each || int64(len(taken)) >= t.most.Total {
		t.most.Reached()
		return machine.Record{}, node.Errorf(node.NoSpace, "cannot run VM %s: its user has %d VMs and the node %d, the most are %s", spec.ID, users, len(taken), t.most)
	}
	uid := uint32(firstUID)
	for taken[uid] {
		uid++
	}
	r := machine.New(spec, uid)
	// A late process of an earlier VM with this ID has another number.
	r.Attempt = rand.Uint64()
	e.record, e.exists = r, true
	return r, nil
}
