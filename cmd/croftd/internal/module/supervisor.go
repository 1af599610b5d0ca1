package module

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/pkg/backoff"
	"github.com/croft-edge/croft/pkg/clip"
	"github.com/croft-edge/croft/pkg/supervise"
	"github.com/croft-edge/croft/pkg/workqueue"
)

// Phase is what becomes of a module.
type Phase string

// The phases of a module.
const (
	// Disabled: the operator has switched it off.
	Disabled Phase = "Disabled"
	// Pending: a constraint isn't met, or it wasn't opened yet.
	Pending Phase = "Pending"
	// Loading: it is being opened.
	Loading Phase = "Loading"
	Running Phase = "Running"
	// Failed: it can't be opened, isn't open after its time, or has ended; it is opened again.
	Failed Phase = "Failed"
)

// The reasons of phases.
const (
	ReasonSwitchedOff     = "SwitchedOff"
	ReasonNotStarted      = "NotStarted"
	ReasonConstraintUnmet = "ConstraintUnmet"
	ReasonLoadFailed      = "LoadFailed"
	ReasonEnded           = "Ended"
)

// State is a module's state.
type State struct {
	Phase Phase
	// Reason is one word, empty while all is well; Message is for people.
	Reason, Message string
	Since           time.Time
}

// Watcher is told of each change of a module's state, in order. It must not block.
type Watcher interface {
	Changed(module string, s State)
}

// SupervisorConfig holds the parts and settings of a Supervisor.
type SupervisorConfig struct {
	// Modules are those of this process, in the order of SupportFirst.
	Modules []Descriptor
	// Off are the names of modules that are switched off.
	Off  []string
	Host Host
	// Facts reads the machine's facts, before each start of a module.
	Facts   func() (Facts, error)
	Watcher Watcher
	// Patience is how long a module may take to open before it is shown as failed (0: a minute). Backoff is the
	// wait between starts (zero: supervise.DefaultBackoff); a module that ran longer than its Max starts anew at once.
	Patience time.Duration
	Backoff  backoff.Backoff
	Log      zerolog.Logger
}

// Validate names the missing fields.
func (c SupervisorConfig) Validate() error {
	switch {
	case len(c.Modules) == 0:
		return errors.New("cannot supervise: Modules is empty, it must be set")
	case c.Facts == nil || c.Watcher == nil || c.Host.Bus == nil:
		return errors.New("cannot supervise: Facts, Watcher and Host.Bus must be set")
	}
	return nil
}

// Supervisor opens modules and keeps them open, each by itself: one that fails, hangs or isn't wanted
// touches no other, and never ends the process. It is safe for concurrent use.
type Supervisor struct {
	cfg   SupervisorConfig
	queue *workqueue.Queue[string]

	mu      sync.Mutex
	modules map[string]*supervised
}

// supervised is one module.
type supervised struct {
	Descriptor
	config config.Config
	off    bool
	state  State
	// unmet are the constraints that weren't met at the last look.
	unmet []Unmet
	// standIn answers the module's calls while it doesn't run; nil while nobody does. It belongs to the queue's worker of
	// this module, and to Run after that.
	standIn *standIn
	// cancel ends the module's start or run in progress; done is closed when that is over. Both are nil
	// without one.
	cancel context.CancelFunc
	done   chan struct{}
}

// NewSupervisor makes a supervisor; Run starts the modules.
func NewSupervisor(c SupervisorConfig) (*Supervisor, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Patience <= 0 {
		c.Patience = time.Minute
	}
	if c.Backoff == (backoff.Backoff{}) {
		c.Backoff = supervise.DefaultBackoff()
	}
	s := &Supervisor{cfg: c, modules: map[string]*supervised{}}
	for _, d := range c.Modules {
		s.modules[d.Name] = &supervised{Descriptor: d, config: c.Host.Config, off: slices.Contains(c.Off, d.Name), state: State{Phase: Pending, Reason: ReasonNotStarted, Since: time.Now()}}
	}
	// A worker a module: each has a queue of its own, in effect.
	queue, err := workqueue.New(workqueue.Config[string]{
		Name: "modules", Handle: s.keep, Workers: len(c.Modules), Backoff: c.Backoff, Log: c.Log,
	})
	s.queue = queue
	return s, err
}

// Run starts the modules and keeps them until ctx is done. Then it stops them in reverse order, each within
// StopTimeout.
func (s *Supervisor) Run(ctx context.Context) error {
	keeping, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	ended := make(chan error, 1)
	go func() {
		ended <- supervise.Guard(s.cfg.Log, "modules", func() error { return s.queue.Run(keeping) })
	}()
	for _, d := range s.cfg.Modules {
		s.queue.Add(d.Name)
	}
	<-ctx.Done()
	for _, d := range slices.Backward(s.cfg.Modules) {
		s.stop(d.Name)
	}
	end()
	err := <-ended
	for _, m := range s.modules {
		m.vacate()
	}
	return err
}

// stop ends a module for good, and waits for it.
func (s *Supervisor) stop(name string) {
	s.queue.Forget(name)
	done := s.interrupt(name)
	if done == nil {
		return
	}
	late := time.NewTimer(StopTimeout)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
		s.cfg.Log.Error().Str("module", name).Dur("within", StopTimeout).Msg("module did not stop in time")
	}
}

// interrupt ends what a module is doing; the channel is closed when that is over, and nil if it does nothing.
func (s *Supervisor) interrupt(name string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.modules[name]
	if m.cancel != nil {
		m.cancel()
	}
	return m.done
}

// Restart closes a module and opens it with other settings. It doesn't wait. The others aren't touched.
func (s *Supervisor) Restart(name string, c config.Config) error {
	return s.change(name, func(m *supervised) bool {
		m.config = c
		return true
	})
}

// Switch closes a module, or opens it again, unless it is that already. It doesn't wait.
func (s *Supervisor) Switch(name string, on bool) error {
	return s.change(name, func(m *supervised) (changed bool) {
		changed = m.off == on
		m.off = !on
		return changed
	})
}

// change changes a module's settings; if change reports that something is different, the module is closed and opened anew.
func (s *Supervisor) change(name string, change func(m *supervised) bool) error {
	s.mu.Lock()
	m := s.modules[name]
	if m == nil {
		s.mu.Unlock()
		return errors.Errorf("cannot change module %q: it must be one of this process's", name)
	}
	changed := change(m)
	s.mu.Unlock()
	if !changed {
		return nil
	}
	s.interrupt(name)
	s.queue.Add(name) // after what it does now
	return nil
}

// State is a module's state; false when this process has none of that name.
func (s *Supervisor) State(name string) (State, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.modules[name]
	if m == nil {
		return State{}, false
	}
	return m.state, true
}

// Queue is the queue of starts, for dumps.
func (s *Supervisor) Queue() workqueue.State[string] { return s.queue.State() }

// mostMessage bounds a state's message, in bytes.
const mostMessage = 1024

func (s *Supervisor) set(m *supervised, phase Phase, reason, message string) {
	s.mu.Lock()
	next := State{Phase: phase, Reason: reason, Message: clip.Text(message, mostMessage), Since: m.state.Since}
	same := next == m.state
	if !same {
		next.Since = time.Now()
		m.state = next
	}
	s.mu.Unlock()
	if !same {
		s.cfg.Watcher.Changed(m.Name, next)
	}
}

// begin notes that a module is started, with its settings; it may be interrupted until over is called.
func (s *Supervisor) begin(ctx context.Context, name string) (starting context.Context, m *supervised, h Host, over func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, h = s.modules[name], s.cfg.Host
	h.Config = m.config
	starting, m.cancel = context.WithCancel(ctx)
	done := make(chan struct{})
	m.done = done
	return starting, m, h, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		m.cancel()
		m.cancel, m.done = nil, nil
		close(done)
	}
}

// keep opens a module and serves it until it ends or is interrupted. Its error has the module opened again after
// a backoff.
func (s *Supervisor) keep(ctx context.Context, name string) error {
	ctx, m, h, over := s.begin(ctx, name)
	defer over()
	if s.isOff(m) {
		s.set(m, Disabled, ReasonSwitchedOff, "it is switched off")
		s.fill(m)
		return nil
	}
	if err := s.constrained(m); err != nil {
		s.set(m, Pending, ReasonConstraintUnmet, err.Error())
		s.fill(m)
		return err
	}
	s.set(m, Loading, "", "")
	run, err := s.open(ctx, m, h)
	if err != nil {
		if ctx.Err() != nil {
			return nil // interrupted
		}
		s.notOpened(m, err)
		s.fillAfter(m, err)
		return err
	}
	m.vacate()
	if ctx.Err() == nil { // else it is closed at once
		s.set(m, Running, "", "")
	}
	began := time.Now()
	err = supervise.Guard(s.cfg.Log, name, func() error { return run(ctx) })
	if ctx.Err() != nil {
		if err != nil {
			s.cfg.Log.Error().Str("module", name).Err(err).Msg("cannot stop a module well")
		}
		return nil
	}
	if err == nil {
		err = errors.New("it ended by itself")
	}
	s.set(m, Failed, ReasonEnded, err.Error())
	s.fillAfter(m, err)
	if time.Since(began) > s.cfg.Backoff.Max {
		s.cfg.Log.Error().Str("module", name).Err(err).Msg("module ended: it is opened again")
		s.queue.AddAfter(name, s.cfg.Backoff.Base)
		return nil // its earlier failures are forgotten
	}
	return errors.Wrapf(err, "cannot go on with module %s", name)
}

// notOpened shows why a module couldn't be opened.
func (s *Supervisor) notOpened(m *supervised, err error) {
	if unmet := (UnmetError)(nil); errors.As(err, &unmet) {
		s.set(m, Pending, ReasonConstraintUnmet, err.Error())
		return
	}
	s.set(m, Failed, ReasonLoadFailed, err.Error())
}

func (s *Supervisor) isOff(m *supervised) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return m.off
}

// constrained says which constraints of a module aren't met.
func (s *Supervisor) constrained(m *supervised) error {
	if m.Constraints == nil {
		return nil
	}
	var unmet []Unmet
	err := supervise.Guard(s.cfg.Log, m.Name, func() error {
		facts, err := s.cfg.Facts()
		if err == nil {
			unmet = m.Constraints(facts)
		}
		return err
	})
	s.mu.Lock()
	m.unmet = unmet
	s.mu.Unlock()
	if err == nil && len(unmet) > 0 {
		err = errors.Wrapf(UnmetError(unmet), "cannot open module %s", m.Name)
	}
	return err
}

// open opens a module. One that takes long is shown as failed meanwhile: a second attempt beside it could do harm, so that
// it is waited for until it returns, interrupted or not.
func (s *Supervisor) open(ctx context.Context, m *supervised, h Host) (run func(ctx context.Context) error, err error) {
	opened := make(chan struct{})
	go func() {
		defer close(opened)
		err = supervise.Guard(s.cfg.Log, m.Name, func() (err error) {
			run, err = m.load(ctx, h, s.phase(m))
			return err
		})
	}()
	late := time.NewTimer(s.cfg.Patience)
	defer late.Stop()
	select {
	case <-opened:
	case <-late.C:
		s.set(m, Failed, ReasonLoadFailed, "it isn't open after "+s.cfg.Patience.String()+", and still waited for")
		s.fill(m)
		<-opened
	}
	return run, err
}
