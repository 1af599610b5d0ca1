package api

import (
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
	if _, ok := s.store.Nodes.Head(nodeID); !ok {
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
		err := s.wait(w, r, nodeID, at.wait, func() bool { head, _ := s.store.Nodes.Head(nodeID); return head > at.after })
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
	head, _ := s.store.Nodes.Head(nodeID)
	if epoch != s.store.Epoch() || at.after > head {
		at.resync, at.after = true, 0
	}
	return at, nil
}

// answerPage answers what is after the cursor; without the database when the
// cursor is at the head. Where the page ends is known in the end, so that is said there.
func (s *Server) answerPage(w http.ResponseWriter, r *http.Request, at *cursor) error {
	head, _ := s.store.Nodes.Head(at.node)
	left, opening := s.page, `{"reservations":[`
	return s.sendParts(w, r, func() ([]byte, bool, error) {
		var rows []store.Row
		var more bool
		var err error
		if at.after < head {
			if rows, more, err = s.store.Reservations.Changes(r.Context(), at.node, at.after, s.now(), part(left)); err != nil {
				return nil, false, err
			}
		}
		body, err := documents(opening, rows, &left)
		if err != nil {
			return nil, false, err
		}
		if len(rows) > 0 {
			at.after, opening = rows[len(rows)-1].Change, ","
		}
		if more && left.Rows > 0 && left.Bytes > 0 {
			return body, true, nil
		}
		page := wire.Page{Epoch: s.store.Epoch(), Next: at.after, Resync: at.resync, Time: s.now().UTC()}
		if !more {
			page.Next = max(head, at.after)
		}
		page.Head, _ = s.store.Nodes.Head(at.node)
		page.Head = max(page.Head, page.Next)
		end, err := pageEnd(page)
		return append(body, end...), false, err
	})
}

// pageEnd is a page's JSON from after its reservations on.
func pageEnd(page wire.Page) ([]byte, error) {
	page.Reservations = []json.RawMessage{}
	all, err := json.Marshal(page)
	if err != nil {
		return nil, err
	}
	all = append([]byte("],"), all[1:len(all)-len(`,"reservations":[]}`)]...)
	return append(all, "}\n"...), nil
}

// part is how much of what is left is read at a time.
func part(left store.Bound) store.Bound {
	return store.Bound{Rows: left.Rows, Bytes: min(left.Bytes, partBytes)}
}

// documents writes rows by hand, encoding/json would change their bytes, and
// takes them off what is left.
func documents(opening string, rows []store.Row, left *store.Bound) ([]byte, error) {
	if opening == "," && len(rows) == 0 {
		opening = ""
	}
	body := []byte(opening)
	for i := range rows {
		doc, err := wire.EncodeReservation(&rows[i].Reservation.Reservation)
		if err != nil {
			return nil, err
		}
		body = appendElement(body, i, doc)
		left.Rows--
		left.Bytes -= rows[i].Size
	}
	return body, nil
}

// pollFrom is the seed's poll, by reservation number.
func (s *Server) pollFrom(w http.ResponseWriter, r *http.Request, nodeID string, in *query) error {
	from := in.number("from", 0, 1<<64-1)
	if err := in.only("from"); err != nil {
		return err
	}
	left := store.Bound{Rows: fromRows, Bytes: fromBytes}
	q := store.FromQuery{Node: nodeID, From: from}
	var rows []store.Row
	var more bool
	var failed error
	read := func() {
		if rows, more, failed = s.store.Reservations.From(r.Context(), q, part(left)); len(rows) > 0 {
			q.Next = rows[len(rows)-1].N + 1
		}
	}
	look := func() bool {
		q.Now = s.now()
		read()
		return failed != nil || len(rows) > 0 || from == 0
	}
	if err := s.wait(w, r, nodeID, min(seedWait, s.policy.MaxWait), look); err != nil {
		return err
	}
	opening := "["
	return s.sendParts(w, r, func() ([]byte, bool, error) {
		if opening != "[" {
			read()
		}
		if failed != nil {
			return nil, false, failed
		}
		body, err := documents(opening, rows, &left)
		if err != nil {
			return nil, false, err
		}
		opening, rows = ",", nil
		if more && left.Rows > 0 && left.Bytes > 0 {
			return body, true, nil
		}
		return append(body, "]\n"...), false, nil
	})
}

// wait returns when look finds something, the time is over, or the explorer
// stops. look is called before the wait and after each change of the node.
func (s *Server) wait(w http.ResponseWriter, r *http.Request, nodeID string, most time.Duration, look func() bool) error {
	if most <= 0 {
		look()
		return nil
	}
	if look() {
		return nil
	}
	own, take := s.homes.own(r, nodeID), s.polls.Take
	if own {
		take = s.polls.TakeKnown
	}
	give, err := take(source(r), 1)
	if err != nil {
		return withStatus(http.StatusServiceUnavailable, node.Errorf(node.Busy, "cannot wait: %w", err))
	}
	defer give()
	end := time.Now().Add(most)
	s.deadlines(w, time.Time{}, end.Add(writeTimeout))
	for {
		// First wait, then look: a push between the two isn't missed.
		one := s.waiters.add(nodeID, own)
		if look() {
			s.waiters.remove(one)
			return nil
		}
		if !s.waiters.sleep(r.Context(), one, time.Until(end)) {
			return node.WithKind(node.Transient, r.Context().Err())
		}
		if one.over {
			return nil
		}
	}
}
