package api

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/croft-edge/croft/explorer/store"
	wire "github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
)

// What one page of a poll holds at most, and the seed's answer, which has no
// next page of its own: its client asks for what is beyond the last number.
const (
	pageRows  = 1000
	pageBytes = 4 << 20
	fromRows  = 10000
	fromBytes = 32 << 20
)

// seedWait is how long the seed's explorer holds a poll.
const seedWait = 20 * time.Second

// maxEpoch is the longest epoch that a poll may name.
const maxEpoch = 64

// poll answers what changed for a node, and waits when nothing has. It doesn't
// touch the database while it waits, nor before it waits.
func (s *Server) poll(w http.ResponseWriter, r *http.Request) error {
	nodeID := r.PathValue("node")
	q := query{values: r.URL.Query()}
	if _, ok := s.store.Head(nodeID); !ok {
		return node.Errorf(node.NotExist, "cannot find node %q: it isn't registered here", limitText(nodeID))
	}
	if q.values.Has("after") {
		return s.pollAfter(w, r, nodeID, &q)
	}
	return s.pollFrom(w, r, nodeID, &q)
}

// cursor is where a poll stands.
type cursor struct {
	node   string
	after  uint64
	wait   time.Duration
	resync bool
}

// pollAfter is croft's poll, by change number. It and what it calls to wait
// have small frames: with them a waiting goroutine's stack is 4 KB, not 8.
func (s *Server) pollAfter(w http.ResponseWriter, r *http.Request, nodeID string, q *query) error {
	at, err := s.cursor(nodeID, q)
	if err != nil {
		return err
	}
	if !at.resync {
		err := s.wait(w, r, nodeID, at.wait, func() bool { head, _ := s.store.Head(nodeID); return head > at.after })
		if err != nil {
			return err
		}
	}
	return s.answerPage(w, r, at)
}

// cursor reads where the poll stands. A cursor of another database, or ahead
// of this one (a restored backup), starts again from 0.
func (s *Server) cursor(nodeID string, q *query) (*cursor, error) {
	at := &cursor{node: nodeID, after: q.number("after", 0, maxNumber), wait: q.duration("wait", s.policy.MaxWait)}
	epoch := q.values.Get("epoch")
	if len(epoch) > maxEpoch {
		return nil, invalid("epoch", epoch, "what the last page said")
	}
	if err := q.only("after", "wait", "epoch"); err != nil {
		return nil, err
	}
	head, _ := s.store.Head(nodeID)
	if epoch != s.store.Epoch() || at.after > head {
		at.resync, at.after = true, 0
	}
	return at, nil
}

func (s *Server) answerPage(w http.ResponseWriter, r *http.Request, at *cursor) error {
	head, _ := s.store.Head(at.node)
	rows, more, err := s.changes(r.Context(), at.node, at.after, head)
	if err != nil {
		return err
	}
	page := wire.Page{Epoch: s.store.Epoch(), Next: head, Resync: at.resync, Time: s.now().UTC()}
	if more {
		page.Next = rows[len(rows)-1].Change
	} else if n := len(rows); n > 0 {
		page.Next = max(page.Next, rows[n-1].Change)
	}
	page.Head, _ = s.store.Head(at.node)
	page.Head = max(page.Head, page.Next)
	return s.writePage(w, page, rows)
}

// changes reads what is after the cursor; nothing, and not the database, when
// the cursor is at the head.
func (s *Server) changes(ctx context.Context, nodeID string, after, head uint64) ([]store.Row, bool, error) {
	if after >= head {
		return nil, false, nil
	}
	return s.store.Changes(ctx, nodeID, after, s.now(), s.page)
}

func (s *Server) writePage(w http.ResponseWriter, page wire.Page, rows []store.Row) error {
	page.Reservations = []json.RawMessage{}
	body, err := json.Marshal(page)
	if err != nil {
		return err
	}
	// The documents go in by hand: encoding/json would change their bytes.
	body = body[:len(body)-len("]}")]
	for i := range rows {
		doc, err := wire.EncodeReservation(&rows[i].Reservation.Reservation)
		if err != nil {
			return err
		}
		body = appendElement(body, i, doc)
	}
	return writeBody(w, http.StatusOK, "application/json", append(body, "]}\n"...))
}

// pollFrom is the seed's poll, by reservation number.
func (s *Server) pollFrom(w http.ResponseWriter, r *http.Request, nodeID string, q *query) error {
	from := q.number("from", 0, 1<<64-1)
	if err := q.only("from"); err != nil {
		return err
	}
	bound := store.Bound{Rows: fromRows, Bytes: fromBytes}
	var rows []store.Row
	var failed error
	look := func() bool {
		rows, failed = s.store.From(r.Context(), nodeID, from, s.now(), bound)
		return failed != nil || len(rows) > 0 || from == 0
	}
	if err := s.wait(w, r, nodeID, min(seedWait, s.policy.MaxWait), look); err != nil {
		return err
	}
	if failed != nil {
		return failed
	}
	body := []byte{'['}
	for i := range rows {
		doc, err := wire.EncodeReservation(&rows[i].Reservation.Reservation)
		if err != nil {
			return err
		}
		body = appendElement(body, i, doc)
	}
	return writeBody(w, http.StatusOK, "application/json", append(body, ']', '\n'))
}

// wait returns when look finds something, the time is over, or the explorer
// stops. look is called before the wait and after each change of the node.
func (s *Server) wait(w http.ResponseWriter, r *http.Request, nodeID string, most time.Duration, look func() bool) error {
	if most <= 0 {
		look()
		return nil
	}
	end := time.Now().Add(most)
	s.deadlines(w, time.Time{}, end.Add(writeTimeout))
	for {
		// First wait, then look: a push between the two isn't missed.
		one := s.waiters.add(nodeID, s.policy.MaxPolls)
		if look() {
			s.waiters.remove(one)
			return nil
		}
		if one == nil {
			return withStatus(http.StatusServiceUnavailable, node.Errorf(node.Busy, "cannot wait: %d long polls are waiting already", s.policy.MaxPolls))
		}
		if !s.waiters.sleep(r.Context(), one, time.Until(end)) {
			return node.WithKind(node.Transient, r.Context().Err())
		}
		if one.over {
			return nil
		}
	}
}
