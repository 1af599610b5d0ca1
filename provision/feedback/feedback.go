package feedback

import (
	"context"
	"sync"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/supervise"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/store"
)

// Config holds the parts and times of Feedback. A zero time gets its default.
type Config struct {
	Outbox Outbox
	Signer Signer
	Sender Sender
	Log    zerolog.Logger

	// Timeout bounds one attempt to sign and send (10 s).
	Timeout time.Duration
	// Grace is how long Run goes on after its context is done (5 s).
	Grace time.Duration
	// Pause is the wait between attempts while the explorer can't be reached: it
	// doubles from Pause (1 s) to MaxPause (1 min), each with jitter.
	Pause    time.Duration
	MaxPause time.Duration
	// SlowPause is the wait between attempts with a result that the explorer refuses (10 min).
	SlowPause time.Duration
}

// Validate reports the first error of the config.
func (c Config) Validate() error {
	if c.Outbox == nil || c.Signer == nil || c.Sender == nil {
		return errors.New("cannot send results: Outbox, Signer and Sender are required")
	}
	for _, d := range []time.Duration{c.Timeout, c.Grace, c.Pause, c.MaxPause, c.SlowPause} {
		if d < 0 {
			return errors.Errorf("cannot send results: a time is %s, it must not be negative", d)
		}
	}
	return nil
}

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	set(&c.Timeout, 10*time.Second)
	set(&c.Grace, 5*time.Second)
	set(&c.Pause, time.Second)
	set(&c.MaxPause, time.Minute)
	set(&c.SlowPause, 10*time.Minute)
	c.MaxPause = max(c.MaxPause, c.Pause)
	return c
}

// Feedback sends results. It is the engine's feedback.
type Feedback struct {
	cfg  Config
	kick chan struct{}
	// looked is when the last query of undelivered results ended, resting how long
	// after it there is no other. Only Run's goroutine uses them.
	looked  time.Time
	resting time.Duration

	mu sync.Mutex
	// troubles are the results that couldn't be sent, by sequence.
	troubles map[int64]*trouble
	// away is why the last attempt of the last pass that tried any failed; nil when it
	// didn't, or when nothing waits for another try.
	away error
}

// New makes feedback; Run starts it.
func New(c Config) (*Feedback, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Feedback{cfg: c.withDefaults(), kick: make(chan struct{}, 1), troubles: map[int64]*trouble{}}, nil
}

// Kick says that there is something new to send. It doesn't block.
func (f *Feedback) Kick() {
	select {
	case f.kick <- struct{}{}:
	default:
	}
}

// Run sends undelivered results until ctx is done, then goes on until none is left
// or the grace is over. It returns nil.
func (f *Feedback) Run(ctx context.Context) error {
	_ = supervise.Keep(ctx, f.cfg.Log, "feedback", f.cfg.backoff(), f.loop) // why it ended is logged
	supervise.Do(f.cfg.Log, "feedback", func() { f.drain(context.WithoutCancel(ctx)) })
	return nil
}

// loop makes passes until ctx is done.
func (f *Feedback) loop(ctx context.Context) error {
	failures := 0
	for ctx.Err() == nil {
		owed, err := f.pass(ctx)
		if ctx.Err() != nil {
			break
		}
		switch {
		case err != nil:
			failures++
		case owed.tried > 0:
			failures = 0
		}
		f.wait(ctx, f.pauseAfter(owed, failures))
		f.rest(ctx)
	}
	return nil
}

// drain retries the undelivered results, within the grace.
func (f *Feedback) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, f.cfg.Grace)
	defer cancel()
	f.mu.Lock()
	for _, t := range f.troubles {
		if !t.final {
			t.next = time.Time{}
		}
	}
	f.mu.Unlock()
	for failures := 1; ctx.Err() == nil; failures++ {
		owed, _ := f.pass(ctx)
		if owed.more {
			failures = 0
			continue
		}
		if owed.soon == 0 {
			break
		}
		f.wait(ctx, f.cfg.backoff().Delay(failures))
	}
	if left, err := f.undelivered(); err == nil && len(left) > 0 {
		f.cfg.Log.Warn().Int("results", len(left)).Msg("results are left for the next start")
	}
}

// looksShare bounds the time spent on queries of undelivered results: to one part
// in so many. maxRest bounds the wait for that.
const (
	looksShare = 10
	maxRest    = 250 * time.Millisecond
)

// undelivered queries the undelivered results, and notes how long that took.
func (f *Feedback) undelivered() (waiting []store.Record, err error) {
	began := time.Now()
	err = supervise.Guard(f.cfg.Log, "feedback", func() (err error) {
		waiting, err = f.cfg.Outbox.Undelivered()
		return err
	})
	f.looked = time.Now()
	f.resting = min((looksShare-1)*f.looked.Sub(began), maxRest)
	return waiting, err
}

// rest waits until the next query may run, however often f is kicked: with
// thousands of undeliverable results a query takes milliseconds. One after a quiet
// time, or with few waiting, doesn't wait.
func (f *Feedback) rest(ctx context.Context) {
	left := time.Until(f.looked.Add(f.resting))
	if left <= 0 {
		return
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	select {
	case <-f.kick: // the next query sees it
	default:
	}
}

// wait waits for d or a kick; for ever when d is negative.
func (f *Feedback) wait(ctx context.Context, d time.Duration) {
	var over <-chan time.Time
	if d >= 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		over = timer.C
	}
	kick := f.kick
	if f.Away() != nil {
		// The explorer can't be reached: more results don't change that.
		kick = nil
	}
	select {
	case <-ctx.Done():
	case <-kick:
	case <-over:
	}
}

// Away returns why the explorer couldn't be reached in the last attempt, nil when it could.
func (f *Feedback) Away() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.away
}

// sign returns a signed copy of a result. Signing it again gives the same bytes.
func (f *Feedback) sign(ctx context.Context, r *workload.Result) (*workload.Result, error) {
	signed := *r
	message, err := signed.SigningBytes()
	if err != nil {
		return nil, err
	}
	signed.Signature, err = f.cfg.Signer.Sign(ctx, message)
	return &signed, errors.Wrapf(err, "cannot sign result %s", r.ID)
}
