package api

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/croft-edge/croft/explorer/longpoll"
	"github.com/croft-edge/croft/explorer/store"
	wire "github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
)

// The largest page of a poll, and the largest answer to the seed's poll, which has no page cursor:
// the seed's client continues after the last number.
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

// polls answers nodes' polls for changes.
type polls struct {
	nodes        *store.Nodes
	reservations *store.Reservations
	// epoch names the database.
	epoch string
	room  *longpoll.Room
	send  *sender
	// page bounds one page.
	page    store.Bound
	maxWait time.Duration
	now     func() time.Time
}

// get answers with the node's changes, and waits when there are none. It doesn't read the database
// before and during the wait.
func (p *polls) get(w http.ResponseWriter, r *http.Request) error {
	nodeID := r.PathValue("node")
	q := query{values: r.URL.Query()}
	if _, ok := p.nodes.Head(nodeID); !ok {
		return node.Errorf(node.NotExist, "cannot find node %q: it isn't registered here", limitText(nodeID))
	}
	if q.values.Has("after") {
		return p.after(w, r, nodeID, &q)
	}
	return p.from(w, r, nodeID, &q)
}

// cursor is the position of a poll in its node's changes.
type cursor struct {
	node   string
	after  uint64
	wait   time.Duration
	resync bool
}

// after is croft's poll, by change number. It and what it calls to wait
// have small frames: with them a waiting goroutine's stack is 4 KB, not 8.
func (p *polls) after(w http.ResponseWriter, r *http.Request, nodeID string, q *query) error {
	at, err := p.cursor(nodeID, q)
	if err != nil {
		return err
	}
	if !at.resync {
		err := p.wait(w, r, nodeID, at.wait, func() bool { head, _ := p.nodes.Head(nodeID); return head > at.after })
		if err != nil {
			return err
		}
	}
	return p.answerPage(w, r, at)
}

// cursor reads the poll's position. A cursor of another database, or ahead of this one (a restored
// backup), restarts at 0.
func (p *polls) cursor(nodeID string, q *query) (*cursor, error) {
	at := &cursor{node: nodeID, after: q.number("after", 0, maxNumber), wait: q.duration("wait", p.maxWait)}
	epoch := q.values.Get("epoch")
	if len(epoch) > maxEpoch {
		return nil, invalid("epoch", epoch, "the epoch of the last page")
	}
	if err := q.only("after", "wait", "epoch"); err != nil {
		return nil, err
	}
	head, _ := p.nodes.Head(nodeID)
	if epoch != p.epoch || at.after > head {
		at.resync, at.after = true, 0
	}
	return at, nil
}

// answerPage sends the changes after the cursor, without the database when the cursor is at the
// head. The page's cursor comes last, since its end isn't known before.
func (p *polls) answerPage(w http.ResponseWriter, r *http.Request, at *cursor) error {
	head, _ := p.nodes.Head(at.node)
	left, opening := p.page, `{"reservations":[`
	return p.send.parts(w, r, func() ([]byte, bool, error) {
		var rows []store.Row
		var more bool
		var err error
		if at.after < head {
			if rows, more, err = p.reservations.Changes(r.Context(), at.node, at.after, p.now(), part(left)); err != nil {
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
		page := wire.Page{Epoch: p.epoch, Next: at.after, Resync: at.resync, Time: p.now().UTC()}
		if !more {
			page.Next = max(head, at.after)
		}
		page.Head, _ = p.nodes.Head(at.node)
		page.Head = max(page.Head, page.Next)
		end, err := pageEnd(page)
		return append(body, end...), false, err
	})
}

// pageEnd is the page's JSON after its reservations.
func pageEnd(page wire.Page) ([]byte, error) {
	page.Reservations = []json.RawMessage{}
	all, err := json.Marshal(page)
	if err != nil {
		return nil, err
	}
	all = append([]byte("],"), all[1:len(all)-len(`,"reservations":[]}`)]...)
	return append(all, "}\n"...), nil
}

// part bounds one read of the remaining page.
func part(left store.Bound) store.Bound {
	return store.Bound{Rows: left.Rows, Bytes: min(left.Bytes, partBytes)}
}

// documents writes rows by hand, since encoding/json would change their bytes, and subtracts them
// from left.
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

// from is the seed's poll, by reservation number.
func (p *polls) from(w http.ResponseWriter, r *http.Request, nodeID string, in *query) error {
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
		if rows, more, failed = p.reservations.From(r.Context(), q, part(left)); len(rows) > 0 {
			q.Next = rows[len(rows)-1].N + 1
		}
	}
	look := func() bool {
		q.Now = p.now()
		read()
		return failed != nil || len(rows) > 0 || from == 0
	}
	if err := p.wait(w, r, nodeID, min(seedWait, p.maxWait), look); err != nil {
		return err
	}
	opening := "["
	return p.send.parts(w, r, func() ([]byte, bool, error) {
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

// wait lets the poll wait at most the duration most, until look finds something.
func (p *polls) wait(w http.ResponseWriter, r *http.Request, nodeID string, most time.Duration, look func() bool) error {
	err := p.room.Wait(r.Context(), &longpoll.Poll{
		Node: nodeID, Source: source(r), Most: most, Look: look,
		Begin: func(end time.Time) { deadlines(w, time.Time{}, end.Add(writeTimeout)) },
	})
	if node.KindOf(err) == node.Busy {
		return withStatus(http.StatusServiceUnavailable, err)
	}
	return err
}
