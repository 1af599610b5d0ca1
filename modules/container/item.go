package container

import (
	"context"
	"time"

	"github.com/croft-edge/croft/pkg/node"
)

// item is a container in the hands of this process.
type item struct {
	id string
	// op lets one change happen at a time: it holds one token.
	op chan struct{}
	// ready is the task that this module has made and not started yet; its pid is
	// 0 for none. Whoever holds the item may use it.
	ready waiting

	// These are guarded by Module.mu.
	record record
	known  bool // whether there is a record
	timer  *time.Timer
	users  int // who hold or wait for op
}

// hold takes the item of an ID for a change, which release ends.
func (m *Module) hold(ctx context.Context, id string) (*item, error) {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil, node.Errorf(node.Transient, "cannot use the container module: it is closed")
	}
	it := m.items[id]
	if it == nil {
		it = &item{id: id, op: make(chan struct{}, 1)}
		m.items[id] = it
	}
	it.users++
	m.mu.Unlock()
	select {
	case it.op <- struct{}{}:
		return it, nil
	case <-ctx.Done():
		m.leave(it)
		return nil, node.Errorf(node.Busy, "cannot change container %s: another change of it takes its time (%w)", id, ctx.Err())
	}
}

func (m *Module) release(it *item) {
	<-it.op
	m.leave(it)
}

// leave forgets an item that nobody uses and of which there is nothing.
func (m *Module) leave(it *item) {
	m.mu.Lock()
	defer m.mu.Unlock()
	it.users--
	if it.users == 0 && !it.known {
		delete(m.items, it.id)
	}
}

// recordOf is the record of an ID.
func (m *Module) recordOf(id string) (record, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	it := m.items[id]
	if it == nil || !it.known {
		return record{}, false
	}
	return it.record, true
}

// keep writes a record and remembers it; its timer is set to its next start.
func (m *Module) keep(it *item, r record) error {
	err := m.cfg.writeRecord(r)
	m.mu.Lock()
	defer m.mu.Unlock()
	it.record, it.known = r, true
	m.setTimer(it)
	return err
}

// forget removes the record.
func (m *Module) forget(it *item) error {
	err := m.cfg.removeRecord(it.id)
	m.mu.Lock()
	defer m.mu.Unlock()
	it.record, it.known = record{}, false
	m.setTimer(it)
	return err
}

// setTimer makes the timer what the record says. mu is held.
func (m *Module) setTimer(it *item) {
	if it.timer != nil {
		it.timer.Stop()
		it.timer = nil
	}
	if !it.known || !it.record.Wanted || it.record.Next == 0 || !m.supervises {
		return
	}
	it.timer = time.AfterFunc(it.record.due(time.Now()), func() { m.spawn(func(ctx context.Context) { m.again(ctx, it.id) }) })
}
