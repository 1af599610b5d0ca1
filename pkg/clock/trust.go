package clock

import (
	"context"
	"sync"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"
)

// Config is the configuration of a Trust.
type Config struct {
	// Clock is read at every request. Required.
	Clock Clock
	// Synced reports whether NTP keeps the clock: Synced of this package. Required.
	Synced func() bool
	// BootID names this boot of the machine; empty when unknown.
	BootID string
	// Build is this program's build time: the time can't be earlier. Zero when unknown.
	Build time.Time
	// Last is the last recorded mark, zero when there is none.
	Last Mark
	// Record stores a mark durably. Required.
	Record func(Mark) error
	// Log receives changes of trust.
	// OnChange, when not nil, is called when the source of trust has changed. It must not block, nor call the Trust.
	OnChange func()
	Log      zerolog.Logger
	// RecordEvery is the interval between marks; ten minutes when zero. A power cut
	// loses up to that much of the node's uptime.
	RecordEvery time.Duration
	// TrustExplorer is whether the operator has named the explorer as a trusted
	// clock: its word is good for level Remove, and NTP alone is better.
	TrustExplorer bool
}

// Validate checks the config.
func (c Config) Validate() error {
	if c.Clock == nil || c.Synced == nil || c.Record == nil {
		return errors.New("cannot watch the clock: Clock, Synced and Record are required")
	}
	return nil
}

const (
	// lookEvery is Run's interval between readings. Every request reads the clocks, too.
	lookEvery = 10 * time.Second
	// defaultRecordEvery is Config.RecordEvery's default.
	defaultRecordEvery = 10 * time.Minute
)

// Verdict is the present knowledge of the time, for people.
type Verdict struct {
	Reading
	Source Source
	// Why is the reason for distrust while the level is None.
	Why string
}

// Trust decides whether the time can be trusted. It is safe for concurrent use.
type Trust struct {
	cfg Config
	// before is the node's uptime up to the present boot.
	before time.Duration

	mu    sync.Mutex
	state state
	last  Mark
	// recorded is whether this process recorded last, source the source of trust at that time.
	recorded bool
	source   Source
}

// New makes a Trust and takes its first reading.
func New(c Config) (*Trust, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.RecordEvery <= 0 {
		c.RecordEvery = defaultRecordEvery
	}
	t := &Trust{cfg: c, last: c.Last}
	r := t.clocks()
	t.before = c.Last.Uptime.before(r.boot, c.BootID)
	t.state = begin(past{build: c.Build, last: c.Last, bootID: c.BootID, before: t.before, trusting: c.TrustExplorer}, r)
	t.say(t.state)
	return t, nil
}

// clocks reads the machine's clocks. The NTP flag is read last: a clock that is
// set in between has lost it already.
func (t *Trust) clocks() reading {
	r := reading{wall: t.cfg.Clock.Now(), boot: t.cfg.Clock.Boot()}
	r.synced = t.cfg.Synced()
	return r
}

// look applies a reading, and returns the state after it.
func (t *Trust) look(next func(state, reading) state) (state, reading) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.clocks()
	before := t.state
	t.state = next(before, r)
	if before.source != t.state.source {
		t.say(t.state)
		if t.cfg.OnChange != nil {
			t.cfg.OnChange()
		}
	}
	return t.state, r
}

func (t *Trust) say(s state) {
	if s.source == Nothing {
		t.cfg.Log.Warn().Str("why", s.why).Msg("the clock can't be trusted: nothing expires, and dates aren't judged")
		return
	}
	t.cfg.Log.Info().Str("source", string(s.source)).Stringer("level", s.source.level()).Msg("the clock is trusted")
}

// Read reads the time.
func (t *Trust) Read() Reading { return t.Verdict().Reading }

// Now is the time, and whether a date may be compared with it: whether its
// level is at least Stop.
func (t *Trust) Now() (time.Time, bool) {
	r := t.Read()
	return r.Now, r.Level >= Stop
}

// Vouched is the time, and whether it is known from more than the word of an
// explorer that the operator hasn't named as a trusted clock.
func (t *Trust) Vouched() (time.Time, bool) {
	v := t.Verdict()
	return v.Now, v.Source.vouched()
}

// Hear takes an explorer's answer, its time; the zero time is no answer.
func (t *Trust) Hear(explorer time.Time) {
	if explorer.IsZero() {
		return
	}
	t.look(func(s state, r reading) state { return s.hear(explorer, r) })
}

// Floor is a time that has certainly passed: the last one of level Remove plus
// the node's uptime since. It is zero when there never was one.
func (t *Trust) Floor() time.Time {
	s, r := t.look(state.see)
	if s.floor.IsZero() {
		return time.Time{}
	}
	return s.floor.Add(r.boot)
}

// Verdict reads the time, with the reason for any distrust.
func (t *Trust) Verdict() Verdict {
	s, r := t.look(state.see)
	return Verdict{
		Reading: Reading{Now: s.now(r), Level: s.source.level(), Uptime: t.before + r.boot}, Source: s.source, Why: s.why,
	}
}

// Run watches the clocks and records marks until ctx is done.
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

// record stores a mark when one is due: at the start, when the source has
// changed or has set the time back, every RecordEvery, and always at the end.
func (t *Trust) record(always bool) {
	s, r := t.look(state.see)
	t.mu.Lock()
	last, recorded, source := t.last, t.recorded, t.source
	t.mu.Unlock()
	m := s.mark(last, r, Uptime{Total: t.before + r.boot, Boot: r.boot, BootID: t.cfg.BootID})
	due := always || !recorded || source != s.source || m.Time.Before(last.Time) || m.Uptime.Total-last.Uptime.Total >= t.cfg.RecordEvery
	if !due {
		return
	}
	if err := t.cfg.Record(m); err != nil {
		t.cfg.Log.Warn().Err(err).Msg("cannot record the time and the node's uptime")
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last, t.recorded, t.source = m, true, s.source
}
