package feedback

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/croft-edge/croft/pkg/backoff"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/supervise"
	"github.com/croft-edge/croft/provision/store"
)

// awayAfter is how many results in a row must fail before the explorer, and not
// the results, is taken for the cause.
const awayAfter = 2

// trouble is a result that couldn't be sent.
type trouble struct {
	id       string
	cause    error
	attempts int
	next     time.Time
	// final is true when the explorer has refused it.
	final bool
}

// Problem is a result that couldn't be sent, for people.
type Problem struct {
	ID       string
	Sequence int64
	Cause    string
	Attempts int
	// Next is when it is tried again.
	Next time.Time
	// Refused is true when the explorer has given its final word on it.
	Refused bool
}

// Problems returns the results that couldn't be sent, oldest first.
func (f *Feedback) Problems() []Problem {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]Problem, 0, len(f.troubles))
	for sequence, t := range f.troubles {
		out = append(out, Problem{ID: t.id, Sequence: sequence, Cause: t.cause.Error(), Attempts: t.attempts, Next: t.next, Refused: t.final})
	}
	slices.SortFunc(out, func(a, b Problem) int { return int(a.Sequence - b.Sequence) })
	return out
}

// owed describes the results that a pass has left.
type owed struct {
	// tried counts the attempts to send a result.
	tried int
	// soon counts the results that are worth another try at once, without the refused ones.
	soon int
	// next is when the first result in trouble is tried again; zero for none.
	next time.Time
	// more says that the pass ended before every due result was tried.
	more bool
}

// pass sends due results, as many as are acknowledged in one write: later ones are for
// the next pass. Users take turns, each with the oldest first, and results in trouble
// come last. It fails when the explorer, the signer or the store can't be reached.
func (f *Feedback) pass(ctx context.Context) (owed, error) {
	waiting, err := f.undelivered()
	if err != nil {
		f.cfg.Log.Error().Err(err).Msg("cannot look for undelivered results")
		return owed{tried: 1, soon: 1}, err
	}
	f.forget(waiting)
	p := &pass{Feedback: f}
	for _, rec := range f.troubledLast(byTurns(waiting)) {
		if ctx.Err() != nil || p.inARow >= awayAfter || p.left.more {
			p.left.soon++
			continue
		}
		if next, troubled := f.later(rec); troubled {
			p.left.wait(next)
			continue
		}
		p.left.tried++
		err := supervise.Guard(f.cfg.Log, "feedback", func() error { return f.send(ctx, rec) })
		switch {
		case err == nil:
			p.inARow, p.failed = 0, nil
			p.sent(rec)
		case ctx.Err() != nil:
			p.left.soon++
		default:
			p.trouble(rec, err)
		}
		if p.full() {
			p.acknowledge()
			p.left.more = p.inARow < awayAfter
		}
	}
	p.acknowledge()
	if p.left.more {
		p.failed = nil // one failure among sent results: the others don't wait for it
	}
	switch {
	case p.left.tried > 0:
		f.setAway(p.failed)
	case !f.retrying():
		f.setAway(nil) // the results that it didn't take aren't owed any more
	}
	return p.left, p.failed
}

// pass is one pass through the undelivered results.
type pass struct {
	*Feedback
	left owed
	// failed is the last attempt's error, nil for none; inARow counts the failures in a row.
	failed error
	inARow int
	// told are the results that the explorer has and the store doesn't know yet; began
	// is when the first was sent.
	told  []store.Record
	began time.Time
}

// Acknowledgements are written at the end of a pass, at the latest after so many
// results, or once the first of them has waited that long. Results whose
// acknowledgement a crash loses are sent again.
const (
	toldAtOnce = 64
	toldWithin = time.Second
)

func (p *pass) sent(rec store.Record) {
	if len(p.told) == 0 {
		p.began = time.Now()
	}
	p.told = append(p.told, rec)
}

func (p *pass) full() bool {
	return len(p.told) >= toldAtOnce || len(p.told) > 0 && time.Since(p.began) >= toldWithin
}

// acknowledge records the sent results in one write. If that fails they are sent
// again, and nothing more is sent in this pass.
func (p *pass) acknowledge() {
	told := p.told
	if p.told = nil; len(told) == 0 {
		return
	}
	receipts := make([]store.Receipt, 0, len(told))
	for _, rec := range told {
		receipts = append(receipts, store.ReceiptFor(rec))
	}
	err := supervise.Guard(p.cfg.Log, "feedback", func() error { return p.cfg.Outbox.Acknowledge(receipts...) })
	if err != nil {
		for _, rec := range told {
			p.trouble(rec, node.WithKind(node.Transient, err))
		}
		p.inARow = awayAfter
		return
	}
	for _, rec := range told {
		p.clear(rec)
	}
}

// trouble notes a result that couldn't be sent, or recorded as sent.
func (p *pass) trouble(rec store.Record, err error) {
	final := p.note(rec, err)
	p.left.wait(p.nextOf(rec))
	if !final {
		p.left.soon++
		p.inARow, p.failed = p.inARow+1, err
	}
}

// byTurns has users take turns: one with thousands of results doesn't delay the
// others.
func byTurns(waiting []store.Record) []store.Record {
	turn := map[string]int{}
	rank := make(map[int64]int, len(waiting))
	for _, rec := range waiting {
		user := rec.Reservation.User
		rank[rec.Result.Sequence] = turn[user]
		turn[user]++
	}
	out := slices.Clone(waiting)
	slices.SortStableFunc(out, func(a, b store.Record) int {
		return cmp.Compare(rank[a.Result.Sequence], rank[b.Result.Sequence])
	})
	return out
}

// troubledLast puts the results that failed before behind the others: they must
// not delay any.
func (f *Feedback) troubledLast(waiting []store.Record) []store.Record {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]store.Record, 0, len(waiting))
	var troubled []store.Record
	for _, rec := range waiting {
		if f.troubles[rec.Result.Sequence] != nil {
			troubled = append(troubled, rec)
			continue
		}
		out = append(out, rec)
	}
	return append(out, troubled...)
}

func (o *owed) wait(next time.Time) {
	if o.next.IsZero() || next.Before(o.next) {
		o.next = next
	}
}

// send signs and sends one result.
func (f *Feedback) send(ctx context.Context, rec store.Record) error {
	ctx, cancel := context.WithTimeout(ctx, f.cfg.Timeout)
	defer cancel()
	signed, err := f.sign(ctx, rec.Result)
	if err != nil {
		return node.WithKind(node.Transient, err)
	}
	return f.cfg.Sender.PutResult(ctx, signed)
}

// note remembers a failure, and reports whether it is the explorer's final word.
func (f *Feedback) note(rec store.Record, err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.troubles[rec.Result.Sequence]
	if t == nil {
		t = &trouble{id: rec.ID()}
		f.troubles[rec.Result.Sequence] = t
	}
	t.cause, t.attempts, t.final = err, t.attempts+1, node.KindOf(err).Final()
	pause := f.cfg.backoff().Delay(t.attempts)
	if t.final {
		pause = backoff.Backoff{Base: f.cfg.SlowPause, Max: f.cfg.SlowPause}.Delay(1)
	}
	t.next = time.Now().Add(pause)
	event := f.cfg.Log.Warn().Str("id", rec.ID()).Str("type", string(rec.Reservation.Type)).Str("step", "feedback")
	event.Int("attempts", t.attempts).Bool("refused", t.final).Err(err).Msg("result not delivered")
	return t.final
}

// later reports whether a result in trouble waits for its time, and until when.
func (f *Feedback) later(rec store.Record) (time.Time, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.troubles[rec.Result.Sequence]
	if t == nil || !time.Now().Before(t.next) {
		return time.Time{}, false
	}
	return t.next, true
}

func (f *Feedback) nextOf(rec store.Record) time.Time {
	next, _ := f.later(rec)
	return next
}

func (f *Feedback) clear(rec store.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.troubles, rec.Result.Sequence)
}

// forget drops the troubles of results that aren't undelivered any more.
func (f *Feedback) forget(waiting []store.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.troubles) == 0 {
		return
	}
	still := make(map[int64]*trouble, len(f.troubles))
	for _, rec := range waiting {
		if t := f.troubles[rec.Result.Sequence]; t != nil {
			still[rec.Result.Sequence] = t
		}
	}
	f.troubles = still
}

// retrying reports whether a result couldn't be sent and isn't refused.
func (f *Feedback) retrying() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range f.troubles {
		if !t.final {
			return true
		}
	}
	return false
}

func (f *Feedback) setAway(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away = err
}

// pauseAfter is how long to wait after a pass: for ever when nothing is owed.
func (f *Feedback) pauseAfter(left owed, failures int) time.Duration {
	if left.more && failures == 0 {
		return 0
	}
	if failures > 0 && left.tried > 0 {
		return f.cfg.backoff().Delay(failures)
	}
	if left.next.IsZero() {
		return -1
	}
	return max(0, time.Until(left.next))
}

// backoff is the wait between attempts while the explorer can't be reached.
func (c Config) backoff() backoff.Backoff { return backoff.Backoff{Base: c.Pause, Max: c.MaxPause} }
