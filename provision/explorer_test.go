package provision_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// fakeExplorer is an explorer of one node: changes in order, and all results received.
type fakeExplorer struct {
	mu      sync.Mutex
	epoch   string
	head    uint64
	number  uint64
	docs    map[string]*workload.Reservation
	changed map[string]uint64
	results map[string][]*workload.Result
	wake    chan struct{}
	// away makes every call fail.
	away bool
	// polls counts the polls.
	polls int
	// deaf makes it refuse results, though it answers polls.
	deaf bool
	// twice is an ID whose document comes twice in each page that has it.
	twice string
	// junk is sent once, in the next page.
	junk []json.RawMessage
}

func newFakeExplorer() *fakeExplorer {
	return &fakeExplorer{
		epoch: "epoch", docs: map[string]*workload.Reservation{}, changed: map[string]uint64{},
		results: map[string][]*workload.Result{}, wake: make(chan struct{}),
	}
}

// push stores r under the next ID.
func (e *fakeExplorer) push(r *workload.Reservation) string {
	e.mu.Lock()
	e.number++
	id := fmt.Sprintf("%d-1", e.number)
	e.mu.Unlock()
	return e.pushAs(id, r)
}

// pushAs stores r under an ID, as a faulty or hostile explorer may.
func (e *fakeExplorer) pushAs(id string, r *workload.Reservation) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := *r
	c.ID = id
	e.docs[id] = &c
	e.touch(id)
	return id
}

// garble sends a text that isn't a document.
func (e *fakeExplorer) garble(text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.junk = append(e.junk, json.RawMessage(text))
	e.touch("junk " + text)
}

// change edits a document and tells the node.
func (e *fakeExplorer) change(id string, edit func(r *workload.Reservation)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := *e.docs[id]
	edit(&c)
	e.docs[id] = &c
	e.touch(id)
}

func (e *fakeExplorer) touch(id string) {
	e.head++
	e.changed[id] = e.head
	close(e.wake)
	e.wake = make(chan struct{})
}

// restoreBackup makes it an explorer of another epoch that knows only the documents that keep selects.
func (e *fakeExplorer) restoreBackup(epoch string, keep func(id string) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.epoch = epoch
	for id := range e.docs {
		if !keep(id) {
			delete(e.docs, id)
			delete(e.changed, id)
		}
		delete(e.results, id)
	}
	close(e.wake)
	e.wake = make(chan struct{})
}

func (e *fakeExplorer) setAway(away bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.away = away
	close(e.wake)
	e.wake = make(chan struct{})
}

// PollPage is the explorer's side of a node's poll.
func (e *fakeExplorer) PollPage(ctx context.Context, _ string, after explorer.Cursor, wait time.Duration) (explorer.Page, error) {
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	for {
		page, wake, err := e.page(after)
		if err != nil || len(page.Reservations) > 0 || page.Resync {
			return page, err
		}
		select {
		case <-wake:
		case <-deadline.C:
			return page, nil
		case <-ctx.Done():
			return explorer.Page{}, ctx.Err()
		}
	}
}

func (e *fakeExplorer) page(after explorer.Cursor) (explorer.Page, <-chan struct{}, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.polls++
	if e.away {
		return explorer.Page{}, e.wake, node.Errorf(node.Transient, "cannot poll: the explorer is away")
	}
	p := explorer.Page{Epoch: e.epoch, Head: e.head, Next: e.head, Time: time.Now()}
	from := after.Change
	if after.Epoch != e.epoch || after.Change > e.head {
		p.Resync, from = true, 0
	}
	var ids []string
	for id, n := range e.changed {
		if n > from {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int { return int(e.changed[a]) - int(e.changed[b]) })
	p.Reservations, e.junk = append(p.Reservations, e.junk...), nil
	for _, id := range ids {
		if e.docs[id] == nil {
			continue
		}
		document, err := json.Marshal(e.docs[id])
		if err != nil {
			return p, nil, err
		}
		p.Reservations = append(p.Reservations, document)
		if id == e.twice {
			p.Reservations = append(p.Reservations, document)
		}
	}
	return p, e.wake, nil
}

// setDeaf makes it refuse results, or accept them again.
func (e *fakeExplorer) setDeaf(deaf bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.deaf = deaf
}

// PutResult stores a signed result: an older or an equal one changes nothing.
func (e *fakeExplorer) PutResult(_ context.Context, r *workload.Result) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.away || e.deaf {
		return node.Errorf(node.Transient, "cannot send: the explorer is away")
	}
	doc, ok := e.docs[r.ID]
	if !ok {
		return node.Errorf(node.NotExist, "cannot take result of %s: there is no such reservation", r.ID)
	}
	hash, err := doc.Hash()
	if err != nil {
		return err
	}
	if err := workload.VerifyResult(r, doc.NodeID, hash); err != nil {
		return node.WithKind(node.Refused, err)
	}
	for _, known := range e.results[r.ID] {
		if known.Birth == r.Birth && known.Sequence >= r.Sequence {
			return nil
		}
	}
	e.results[r.ID] = append(e.results[r.ID], r)
	return nil
}

// asked returns the number of polls.
func (e *fakeExplorer) asked() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.polls
}

// result returns the newest result of id.
func (e *fakeExplorer) result(id string) *workload.Result {
	e.mu.Lock()
	defer e.mu.Unlock()
	if all := e.results[id]; len(all) > 0 {
		return all[len(all)-1]
	}
	return nil
}

// all returns the results received for id, in order of arrival.
func (e *fakeExplorer) all(id string) []*workload.Result {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.results[id])
}

func (e *fakeExplorer) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var b strings.Builder
	for id := range e.docs {
		fmt.Fprintf(&b, "%s:", id)
		for _, r := range e.results[id] {
			fmt.Fprintf(&b, "%s(%s)", r.State, r.Error)
		}
		b.WriteString(" ")
	}
	return b.String()
}
