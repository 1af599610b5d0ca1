package source

import (
	"context"
	"sync"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/supervise"
	"github.com/croft-edge/croft/provision/refusals"
)

// Poller asks an explorer for a node's changes after a cursor. The explorer holds
// the poll until there is one, or answers an empty page after a while.
type Poller interface {
	PollPage(ctx context.Context, nodeID string, after explorer.Cursor, wait time.Duration) (explorer.Page, error)
}

// Cursors keeps the cursor over a restart. SetCursor returns once it is durable.
type Cursors interface {
	Cursor() explorer.Cursor
	SetCursor(c explorer.Cursor) error
}

// ChangesConfig holds the parts and settings of Changes.
type ChangesConfig struct {
	// NodeID is this node's ID.
	NodeID  string
	Poller  Poller
	Cursors Cursors
	// Wait is how long an explorer that has nothing new may hold a poll (0: 50 s).
	Wait time.Duration
	// Backoff is the wait between failed polls; the zero value means PollBackoff.
	Backoff Backoff
	// OnPoll is called with each answer: the explorer's clock and nil, or the zero
	// time and the error. May be nil; must not block.
	OnPoll func(explorerTime time.Time, err error)
	// Refusals counts the documents that can't be read; nil for nobody.
	Refusals *refusals.Counts
	Log      zerolog.Logger
}

// Validate names the missing fields.
func (c ChangesConfig) Validate() error {
	switch {
	case c.NodeID == "":
		return errors.New("cannot poll: NodeID is empty, it must be this node's ID")
	case c.Poller == nil:
		return errors.New("cannot poll: Poller is nil, it must be the explorer's client")
	case c.Cursors == nil:
		return errors.New("cannot poll: Cursors is nil, it must be where the cursor is kept")
	case c.Wait < 0:
		return errors.Errorf("cannot poll: Wait is %s, it must not be negative", c.Wait)
	}
	return nil
}

// Changes polls an explorer by change number. The cursor moves durably, and only
// after the engine has handled the whole page: after a crash the page comes again,
// and the engine answers known reservations from its records.
type Changes struct {
	ChangesConfig
	reset    chan struct{}
	delivery *delivery

	mu        sync.Mutex
	interrupt context.CancelFunc
}

// NewChanges makes the source.
func NewChanges(c ChangesConfig) (*Changes, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Wait == 0 {
		c.Wait = 50 * time.Second
	}
	if c.Backoff == (Backoff{}) {
		c.Backoff = PollBackoff()
	}
	if c.OnPoll == nil {
		c.OnPoll = func(time.Time, error) {}
	}
	return &Changes{ChangesConfig: c, reset: make(chan struct{}, 1), delivery: newDelivery(c.Refusals, c.Log)}, nil
}

// Reset makes the next poll start from 0: everything is delivered again. It is
// for a node that lost a record or changed its mind about what it accepts. It
// may be called from anywhere.
func (s *Changes) Reset() {
	select {
	case s.reset <- struct{}{}:
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.interrupt != nil {
		s.interrupt() // a poll that waits for a change
	}
}

// poll polls once; it returns false when Reset ended it.
func (s *Changes) poll(ctx context.Context, cursor explorer.Cursor) (explorer.Page, bool, error) {
	polling, cancel := context.WithCancel(ctx)
	defer cancel()
	s.mu.Lock()
	s.interrupt = cancel
	s.mu.Unlock()
	if len(s.reset) > 0 {
		return explorer.Page{}, false, nil
	}
	var page explorer.Page
	err := supervise.Guard(s.Log, "poll", func() (err error) {
		page, err = s.Poller.PollPage(polling, s.NodeID, cursor, s.Wait)
		return err
	})
	if err != nil && polling.Err() != nil && ctx.Err() == nil {
		return explorer.Page{}, false, nil
	}
	return page, true, err
}

// Items yields the reservations of each page in the order to handle them.
func (s *Changes) Items(ctx context.Context) <-chan Item {
	return yield(ctx, s.Log, "poll", s.run)
}

func (s *Changes) run(ctx context.Context, out chan<- Item) error {
	cursor := s.Cursors.Cursor()
	failures := 0
	for ctx.Err() == nil {
		cursor = s.applyReset(cursor)
		before := cursor
		next, moved, err := s.page(ctx, out, cursor)
		if ctx.Err() != nil {
			break
		}
		cursor = next
		if err == nil && moved {
			if before.Epoch == cursor.Epoch {
				failures = 0 // an explorer that keeps changing its epoch isn't healthy
			}
			if before.Epoch == cursor.Epoch || before.Epoch == "" {
				continue
			}
		}
		failures++
		if err != nil {
			s.Log.Warn().Err(err).Int("attempts", failures).Msg("cannot poll the explorer")
		}
		if !wait(ctx, max(s.Backoff.Delay(failures), retryAfter(err))) {
			break
		}
	}
	return ctx.Err()
}

// retryAfter is the pause that the explorer asked for, at most five minutes.
func retryAfter(err error) time.Duration {
	var answer *explorer.AnswerError
	if !errors.As(err, &answer) {
		return 0
	}
	return min(answer.RetryAfter, 5*time.Minute)
}

func (s *Changes) applyReset(cursor explorer.Cursor) explorer.Cursor {
	select {
	case <-s.reset:
		s.Log.Info().Msg("poll starts again from the beginning")
		s.delivery.forget()
		return explorer.Cursor{}
	default:
		return cursor
	}
}

// page polls once and has the page handled. It returns the cursor to go on
// from, and whether going on at once makes sense.
func (s *Changes) page(ctx context.Context, out chan<- Item, cursor explorer.Cursor) (explorer.Cursor, bool, error) {
	start := time.Now()
	page, asked, err := s.poll(ctx, cursor)
	if !asked {
		return cursor, true, nil
	}
	if err == nil {
		err = check(page)
	}
	s.OnPoll(page.Time, err)
	if err != nil {
		return cursor, false, err
	}
	if behind(page, cursor) {
		s.Log.Warn().Str("epoch", page.Epoch).Msg("the explorer has another history: everything is asked for again")
		return explorer.Cursor{}, false, nil
	}
	if err := s.delivery.page(ctx, out, page.Reservations); err != nil {
		return cursor, false, err
	}
	s.delivery.forget()
	next := explorer.Cursor{Epoch: page.Epoch, Change: page.Next}
	if next == cursor {
		return cursor, len(page.Reservations) == 0 && time.Since(start) >= quickPoll, nil
	}
	if err := s.Cursors.SetCursor(next); err != nil {
		s.Log.Error().Err(err).Msg("cannot keep the poll's cursor: after a restart this page comes again")
	}
	return next, true, nil
}

// check refuses a page that no correct explorer sends.
func check(p explorer.Page) error {
	switch {
	case p.Epoch == "":
		return errors.New("cannot use the explorer's page: epoch is empty")
	case p.Next > p.Head:
		return errors.Errorf("cannot use the explorer's page: next is %d, after its head %d", p.Next, p.Head)
	}
	return nil
}

// behind reports whether the page is of another history than the cursor
// without saying so.
func behind(p explorer.Page, c explorer.Cursor) bool {
	if p.Resync || c == (explorer.Cursor{}) {
		return false
	}
	return p.Epoch != c.Epoch || p.Head < c.Change || p.Next < c.Change
}
