package managed

import (
	"context"
	"sync"
	"time"

	"github.com/croft-edge/croft/pkg/node"
)

// Table holds the containers by their IDs. It is safe for concurrent use.
type Table struct {
	store Store

	mu         sync.Mutex
	containers map[string]*Container
	closed     bool
	// restart is called when a container's next start is due; nil while nothing is started again.
	restart func(id string)
}

// Open makes a table of the records in a store.
func Open(s Store) (*Table, error) {
	all, err := s.ReadAll()
	if err != nil {
		return nil, err
	}
	t := &Table{store: s, containers: map[string]*Container{}}
	for id, r := range all {
		c := newContainer(id)
		c.record, c.hasRecord = r, true
		t.containers[id] = c
	}
	return t, nil
}

// Hold takes a container for a change, which Release ends. It need not exist. Busy when another
// change doesn't end before ctx does, Transient when the table is closed.
func (t *Table) Hold(ctx context.Context, id string) (*Container, error) {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil, node.Errorf(node.Transient, "cannot use the container module: it is closed")
	}
	c := t.containers[id]
	if c == nil {
		c = newContainer(id)
		t.containers[id] = c
	}
	c.users++
	t.mu.Unlock()
	select {
	case c.change <- struct{}{}:
		return c, nil
	case <-ctx.Done():
		t.leave(c)
		return nil, node.Errorf(node.Busy, "cannot change container %s: another change of it takes its time (%w)", id, ctx.Err())
	}
}

// Release ends the change that Hold has begun.
func (t *Table) Release(c *Container) {
	<-c.change
	t.leave(c)
}

// leave removes a container from the table when nobody uses it and it has no record.
func (t *Table) leave(c *Container) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.users--
	if c.users == 0 && !c.hasRecord {
		delete(t.containers, c.ID)
	}
}

// Record is the record of an ID.
func (t *Table) Record(id string) (Record, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.containers[id]
	if c == nil || !c.hasRecord {
		return Record{}, false
	}
	return c.record, true
}

// Count is the number of containers that have a record.
func (t *Table) Count() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.containers {
		if c.hasRecord {
			n++
		}
	}
	return n
}

// Keep writes the record of a held container, remembers it, and sets the timer of its next start.
// A record that can't be written is remembered all the same.
func (t *Table) Keep(c *Container, r Record) error {
	err := t.store.Write(r)
	t.mu.Lock()
	defer t.mu.Unlock()
	c.record, c.hasRecord = r, true
	t.setTimer(c)
	return err
}

// Remember is Keep in memory alone, without the timer.
func (t *Table) Remember(c *Container, r Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.record = r
}

// Forget removes the record of a held container.
func (t *Table) Forget(c *Container) error {
	err := t.store.Remove(c.ID)
	t.mu.Lock()
	defer t.mu.Unlock()
	c.record, c.hasRecord = Record{}, false
	t.setTimer(c)
	return err
}

// StartTimers has restart called when a container's next start is due, unless the table is
// closed. Timers are set by Keep, SetTimer and Unnoticed from now on.
func (t *Table) StartTimers(restart func(id string)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.restart = restart
	}
}

// StopTimers stops the timers of StartTimers.
func (t *Table) StopTimers() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopTimers()
}

func (t *Table) stopTimers() {
	t.restart = nil
	for _, c := range t.containers {
		t.setTimer(c)
	}
}

// Close fails all later calls of Hold, and stops the timers.
func (t *Table) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	t.stopTimers()
}

// ClearTimer forgets the timer of a held container: it has called restart.
func (t *Table) ClearTimer(c *Container) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.timer = nil
}

// SetTimer sets the timer of a held container to the next start in its record.
func (t *Table) SetTimer(c *Container) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.setTimer(c)
}

// setTimer is SetTimer. mu is held.
func (t *Table) setTimer(c *Container) {
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	if !c.waits() || t.restart == nil {
		return
	}
	restart := t.restart
	c.timer = time.AfterFunc(Due(c.record, time.Now()), func() { restart(c.ID) })
}

// Unnoticed are the containers that should run, and are there but don't: their exit wasn't
// noticed. Those that wait for their next start get a timer if they lack one. Those that are not there
// are the engine's affair, which misses them in List.
func (t *Table) Unnoticed(state func(id string) (runs, there bool)) (ended []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, c := range t.containers {
		if !c.hasRecord || !c.record.Wanted {
			continue
		}
		runs, there := state(id)
		switch {
		case !there:
		case c.waits():
			if c.timer == nil {
				t.setTimer(c)
			}
		case !runs:
			ended = append(ended, id)
		}
	}
	return ended
}
