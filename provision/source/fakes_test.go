package source_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/source"
)

func volume(id string) *workload.Reservation { return ofType(id, workload.TypeVolume) }

func ofType(id string, t workload.Type) *workload.Reservation {
	return &workload.Reservation{ID: id, Type: t}
}

// fakePoller answers polls from a list, in turn; after it, polls hang until their end.
type fakePoller struct {
	mu      sync.Mutex
	answers []pageAnswer
	asked   []explorer.Cursor
}

type pageAnswer struct {
	page  explorer.Page
	err   error
	after time.Duration
}

func (p *fakePoller) PollPage(ctx context.Context, _ string, after explorer.Cursor, wait time.Duration) (explorer.Page, error) {
	p.mu.Lock()
	p.asked = append(p.asked, after)
	var a pageAnswer
	if len(p.answers) > 0 {
		a, p.answers = p.answers[0], p.answers[1:]
	} else {
		a = pageAnswer{page: explorer.Page{Epoch: after.Epoch, Head: after.Change, Next: after.Change}, after: wait}
	}
	p.mu.Unlock()
	select {
	case <-time.After(a.after):
		return a.page, a.err
	case <-ctx.Done():
		return explorer.Page{}, ctx.Err()
	}
}

func (p *fakePoller) cursors() []explorer.Cursor {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]explorer.Cursor(nil), p.asked...)
}

// page holds reservations of the given IDs and leads to change next.
func page(epoch string, next uint64, rs ...*workload.Reservation) pageAnswer {
	p := explorer.Page{Epoch: epoch, Head: next, Next: next, Time: time.Now()}
	for _, r := range rs {
		document, err := json.Marshal(r)
		if err != nil {
			panic(fmt.Sprint("cannot make a test document: ", err))
		}
		p.Reservations = append(p.Reservations, document)
	}
	return pageAnswer{page: p}
}

// memoryCursor is a cursor that survives the source, not the test.
type memoryCursor struct {
	mu   sync.Mutex
	c    explorer.Cursor
	sets int
	fail error
}

func (m *memoryCursor) Cursor() explorer.Cursor {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.c
}

func (m *memoryCursor) SetCursor(c explorer.Cursor) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	m.c = c
	m.sets++
	return nil
}

// take reads n items, finishing each with err.
func take(items <-chan source.Item, n int, err error) []string {
	var ids []string
	for range n {
		item, open := <-items
		if !open {
			return ids
		}
		ids = append(ids, item.Reservation.ID)
		item.Finish(err)
	}
	return ids
}
