package mirror

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/backoff"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/provision/persist"
)

// Config is a mirror's configuration.
type Config struct {
	// Provider and Instance are where the mirror is.
	Provider persist.Provider
	Instance string
	// Source is what is mirrored: Folder of the store's folder.
	Source Source
	// Birth returns the ID of the store's birth, and the earlier ones of the same store: (*store.FSStore).Birth and Ancestors.
	Birth func() (id string, ancestors []string)
	// Key is the node's key. Recovery is the ID of the recovery key that the operator names, empty for none: who has it can read the mirror and
	// become the node. It comes from the operator's settings alone.
	Key      sign.KeyPair
	Recovery string
	// Backoff spaces the tries after failures; zero is a second, doubling to five minutes. Pace is the least time between two lists; 0 is
	// DefaultPace. Timeout bounds one call of the provider; 0 is DefaultTimeout. Doubt is how long a list whose sending has failed may still arrive at
	// the place; 0 is DefaultDoubt.
	Backoff backoff.Backoff
	Pace    time.Duration
	Timeout time.Duration
	Doubt   time.Duration
	// Changed, when set, is called after each try to bring the mirror up to date, and now and then during a long one. It must not block.
	Changed func(Status)
	Log     zerolog.Logger
}

// The defaults of Config.
const (
	DefaultPace    = 5 * time.Second
	DefaultTimeout = 5 * time.Minute
	// DefaultDoubt is how long S3 servers take a request after its date.
	DefaultDoubt = 15 * time.Minute
)

// batches is how many batches are sent until others are told how far it is, and who asks for something is served.
const batches = 16

// Validate names the field that is missing. node.Invalid.
func (c Config) Validate() error {
	missing := ""
	switch {
	case c.Provider == nil:
		missing = "Provider"
	case c.Instance == "":
		missing = "Instance"
	case c.Source == nil:
		missing = "Source"
	case c.Birth == nil:
		missing = "Birth"
	case c.Key.Private() == nil:
		missing = "Key"
	}
	if missing != "" {
		return node.Errorf(node.Invalid, "cannot make a mirror: %s is missing", missing)
	}
	if c.Recovery != "" {
		if _, err := sign.VerifyingKey(c.Recovery); err != nil {
			return node.WithKind(node.Invalid, errors.Wrap(err, "cannot make a mirror: the recovery key can't be used"))
		}
	}
	return nil
}

// Status is what is known of a mirror.
type Status struct {
	Instance string
	// Up is whether the instance is up.
	Up bool
	// Names is the lag: how many names have changed and aren't on the mirror yet. Oldest is when the first of them changed; zero when there is none.
	Names  int
	Oldest time.Time
	// Complete is whether the mirror once had everything, so that a store can be restored from it; Listed is the date of its list.
	Complete bool
	Listed   time.Time
	// Held is why the mirror is left as it is; empty when it isn't. It has another store's files, which nothing but Replace gives up.
	Held string
	// Error is the last failure since the last success, and Since when it was; empty when there is none. Unfit is how many names can't be mirrored.
	Error string
	Since time.Time
	Unfit int
}

// Mirror writes behind what a store changes. Its methods may be called from several goroutines.
type Mirror struct {
	cfg   Config
	marks *marks
	// asks has one element after Check and Replace.
	asks chan struct{}

	mu     sync.Mutex
	status Status
	// check is asked for by others, and replace, which is told how that went; nil while nobody asks.
	check   bool
	replace chan error
}

// New makes a mirror. Nothing is asked before Run.
func New(c Config) (*Mirror, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Backoff == (backoff.Backoff{}) {
		c.Backoff = backoff.Backoff{Base: time.Second, Max: 5 * time.Minute}
	}
	c.Pace, c.Timeout, c.Doubt = cmp.Or(c.Pace, DefaultPace), cmp.Or(c.Timeout, DefaultTimeout), cmp.Or(c.Doubt, DefaultDoubt)
	return &Mirror{cfg: c, marks: newMarks(), asks: make(chan struct{}, 1), status: Status{Instance: c.Instance}}, nil
}

// Begin tells that the store begins a change, which Mark ends. It never waits: it is for store.Config.OnBegin.
func (m *Mirror) Begin() { m.marks.begin() }

// Mark tells that names have changed. It never waits: it is for store.Config.OnChange.
func (m *Mirror) Mark(names ...string) { m.marks.end(time.Now(), names...) }

// Check has the mirror compared with the store soon, as after a restart.
func (m *Mirror) Check() { m.ask(func() { m.check = true }) }

// Replace gives up what a held mirror has: it becomes this store's. The operator asks for it. It returns once that is so, or with why it failed:
// it isn't tried again. Refused when the mirror isn't held, or somebody else asks at the same time.
func (m *Mirror) Replace(ctx context.Context) error {
	done := make(chan error, 1)
	var err error
	m.ask(func() {
		switch {
		case m.replace != nil:
			err = node.Errorf(node.Refused, "cannot replace the mirror %s: somebody else is replacing it", m.cfg.Instance)
		case m.status.Held == "":
			err = node.Errorf(node.Refused, "cannot replace the mirror %s: it isn't known to have another store's files", m.cfg.Instance)
		default:
			m.check, m.replace = true, done
		}
	})
	if err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.replace == done {
			m.replace = nil
		}
		return node.Errorf(node.Transient, "cannot tell whether the mirror %s was replaced: %w", m.cfg.Instance, ctx.Err())
	}
}

func (m *Mirror) ask(set func()) {
	m.mu.Lock()
	set()
	m.mu.Unlock()
	select {
	case m.asks <- struct{}{}:
	default:
	}
}

// asked reports whether somebody asks for something.
func (m *Mirror) asked() bool { return len(m.asks) > 0 }

// Status never waits.
func (m *Mirror) Status() Status {
	m.mu.Lock()
	s := m.status
	m.mu.Unlock()
	s.Up = m.cfg.Provider.InstanceStatus(m.cfg.Instance).Status
	s.Names, s.Oldest = m.marks.lag()
	return s
}

// Run keeps the mirror until ctx ends.
func (m *Mirror) Run(ctx context.Context) error {
	w := &writer{place: place{m.cfg.Provider, m.cfg.Instance, m.cfg.Timeout}, mirror: m, cfg: m.cfg}
	for failures := 0; ctx.Err() == nil; {
		err := m.round(ctx, w)
		if ctx.Err() != nil {
			break
		}
		var wait time.Duration
		changes := false
		if failures++; err == nil {
			failures = 0
			wait, changes = w.due()
		} else {
			wait = m.cfg.Backoff.Delay(failures)
		}
		m.note(err, failures, len(w.unfit))
		m.tell()
		m.pause(ctx, wait, changes)
	}
	return nil
}

// tell tells how far the mirror is.
func (m *Mirror) tell() {
	if m.cfg.Changed != nil {
		m.cfg.Changed(m.Status())
	}
}

// note keeps a round's end for Status, and logs the first failure in a row and its end.
func (m *Mirror) note(err error, failures, unfit int) {
	m.mu.Lock()
	m.status.Unfit = unfit
	was := m.status.Error
	m.status.Error, m.status.Held = "", ""
	if err != nil {
		m.status.Error, m.status.Since = err.Error(), time.Now()
	}
	if errors.Is(err, errHeld) {
		m.status.Held = err.Error()
	}
	m.mu.Unlock()
	switch {
	case err != nil && failures == 1:
		m.cfg.Log.Warn().Err(err).Str("instance", m.cfg.Instance).Msg("the mirror of the store is behind: tried again after growing pauses")
	case err == nil && was != "":
		m.cfg.Log.Info().Str("instance", m.cfg.Instance).Msg("the mirror of the store works again")
	}
}

// pause waits; a negative time is for ever. Changes end it if they may: after a failure they don't, and not before the next list may be written.
func (m *Mirror) pause(ctx context.Context, wait time.Duration, may bool) {
	var over <-chan time.Time
	if wait >= 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		over = timer.C
	}
	wake := m.marks.wake
	if !may {
		wake = nil
	}
	select {
	case <-ctx.Done():
	case <-over:
	case <-wake:
	case <-m.asks:
	}
}

// round brings the mirror up to date as far as it can. Who asked for a replacement is told how it went.
func (m *Mirror) round(ctx context.Context, w *writer) error {
	m.mu.Lock()
	check, replace := m.check, m.replace
	m.check, m.replace = false, nil
	if replace != nil {
		m.status.Held = "" // note says what comes of it
	}
	m.mu.Unlock()
	if replace == nil {
		return m.bring(ctx, w, check, false)
	}
	err := node.Errorf(node.Internal, "cannot replace the mirror %s: see the node's log", m.cfg.Instance) // if it panics
	defer func() {
		if err != nil { // it isn't tried again unasked: the mirror is looked at anew
			w.is.ready, w.is.own, w.is.tried = false, false, true
		}
		replace <- err
	}()
	err = m.bring(ctx, w, true, true)
	return err
}

// bring compares the mirror with the store where that is due, sends what waits, and writes the list. The list is of one moment: the last names that
// wait are all read before one of them is sent, so that the store may go on to change, and however slow the place is. While many wait, or the
// store changes all the time, it returns now and then, and when somebody asks for something, without a list, and is called again at once.
func (m *Mirror) bring(ctx context.Context, w *writer, check, replace bool) error {
	// What was down may have been put back to an older state meanwhile.
	if check || !w.is.ready || !m.cfg.Provider.InstanceStatus(m.cfg.Instance).Status {
		if err := w.connect(ctx, check, replace); err != nil {
			return err
		}
	}
	if !replace && w.early() > 0 {
		return nil // what isn't listed isn't on the mirror: names that change often are sent once a list
	}
	asks := m.asks
	if replace { // who asked for that is told at its end
		asks = nil
	}
	for sent := 0; ctx.Err() == nil; sent++ {
		some, all := m.marks.first(batch)
		if all <= mostRead {
			known, err := w.read(ctx, asks, longestRead)
			switch {
			case errors.Is(err, errLater) && !replace:
				return nil
			case errors.Is(err, errLater):
				m.tell()
				continue
			case err != nil:
				return err
			case known != nil:
				return w.sendAll(ctx, known)
			}
		}
		if sent > 0 && sent%batches == 0 {
			if !replace {
				return nil
			}
			m.tell()
		}
		if err := w.send(ctx, some); err != nil {
			return err
		}
	}
	return ctx.Err()
}
