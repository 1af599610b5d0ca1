package clock

import (
	"context"
	"sync"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"
)

// Config is what a Trust is made of.
type Config struct {
	// Clock is read at every question. Required.
	Clock Clock
	// Synced says whether NTP keeps the clock: Synced of this package. Required.
	Synced func() bool
	// BootID names this boot of the machine; empty when it isn't known.
	BootID string
	// Build is when this program was built: it can't be earlier. Zero when not known.
	Build time.Time
	// Last is the mark that was recorded last, zero when none ever was.
	Last Mark
	// Record keeps a trusted time durably. Required.
	Record func(Mark) error
	// Log gets changes of trust.
	Log zerolog.Logger
	// RecordEvery is how often a trusted time is recorded; an hour when zero.
	RecordEvery time.Duration
}

// Validate says what is wrong with the config.
func (c Config) Validate() error {
	if c.Clock == nil || c.Synced == nil || c.Record == nil {
		return errors.New("cannot watch the clock: Clock, Synced and Record are required")
	}
	return nil
}

// lookEvery is how often Run looks at the clocks. Every question looks, too.
const lookEvery = 10 * time.Second

// Verdict is how far the time can be trusted, for people.
type Verdict struct {
	// Time is the trusted time, or the wall clock's when it isn't trusted.
	Time    time.Time
	Trusted bool
	// Removable says that data may be removed by it, not only workloads stopped.
	Removable bool
	Source    Source
	// Why says what is wrong while it isn't trusted.
	Why string
}

// Trust decides whether the time can be trusted. It is safe for concurrent use.
type Trust struct {
	cfg Config

	mu    sync.Mutex
	state state
	last  Mark
	// recorded is the source of last, in this life of the process.
	recorded Source
}

// New makes a Trust and takes its first look.
func New(c Config) (*Trust, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.RecordEvery <= 0 {
		c.RecordEvery = time.Hour
	}
	t := &Trust{cfg: c, last: c.Last}
	t.state = begin(past{build: c.Build, last: c.Last, bootID: c.BootID}, t.read())
	t.say(t.state)
	return t, nil
}

// read looks at the machine's clocks. The flag is read last: a clock that is
// set in between has lost it already.
func (t *Trust) read() reading {
	r := reading{wall: t.cfg.Clock.Now(), boot: t.cfg.Clock.Boot()}
	r.synced = t.cfg.Synced()
	return r
}

// look takes in a reading, and returns the state after it.
func (t *Trust) look(next func(state, reading) state) (state, reading) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.read()
	before := t.state
	t.state = next(before, r)
	if before.source != t.state.source {
		t.say(t.state)
	}
	return t.state, r
}

func (t *Trust) say(s state) {
	if s.source == Nothing {
		t.cfg.Log.Warn().Str("why", s.why).Msg("the clock can't be trusted: nothing expires, and dates aren't judged")
		return
	}
	t.cfg.Log.Info().Str("source", string(s.source)).Msg("the clock is trusted")
}

// Now is the time, and whether it can be trusted: whether a date may be
// compared with it.
func (t *Trust) Now() (time.Time, bool) {
	s, r := t.look(state.see)
	return s.now(r)
}

// Removable reports whether data may be removed because its time is over. The
// explorer's word alone isn't enough, unless it has stood for a week.
func (t *Trust) Removable() bool {
	s, r := t.look(state.see)
	return s.removable(r)
}

// Hear takes in what the explorer says the time is; the zero time is no answer.
func (t *Trust) Hear(explorer time.Time) {
	if explorer.IsZero() {
		return
	}
	t.look(func(s state, r reading) state { return s.hear(explorer, r) })
}

// Floor is a time that has certainly passed: the last trusted one.
func (t *Trust) Floor() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last.Time
}

// Verdict says how far the time is trusted, and why not.
func (t *Trust) Verdict() Verdict {
	s, r := t.look(state.see)
	now, trusted := s.now(r)
	return Verdict{Time: now, Trusted: trusted, Removable: s.removable(r), Source: s.source, Why: s.why}
}

// Run watches the clocks and records trusted times until ctx is done.
func (t *Trust) Run(ctx context.Context) error {
	for {
		t.record(false)
		timer := t.cfg.Clock.NewTimer(lookEvery)
		select {
		case <-ctx.Done():
			timer.Stop()
			t.record(true)
			return nil
		case <-timer.C():
		}
	}
}

// record keeps the time if it is trusted and it is time to. A source outside
// the machine may lower what was recorded; the machine's own clock may not.
func (t *Trust) record(always bool) {
	s, r := t.look(state.see)
	now, trusted := s.now(r)
	t.mu.Lock()
	last, source := t.last, t.recorded
	t.mu.Unlock()
	ahead := now.Sub(last.Time)
	switch {
	case !trusted, s.source == Start && ahead < 0:
		return
	case !always && source == s.source && ahead >= 0 && ahead < t.cfg.RecordEvery:
		return
	}
	m := Mark{Time: now.UTC(), Boot: r.boot, BootID: t.cfg.BootID}
	if err := t.cfg.Record(m); err != nil {
		t.cfg.Log.Warn().Err(err).Msg("a trusted time can't be recorded")
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last, t.recorded = m, s.source
}
