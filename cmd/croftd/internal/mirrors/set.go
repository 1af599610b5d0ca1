package mirrors

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/supervise"
	"github.com/croft-edge/croft/provision/persist"
	"github.com/croft-edge/croft/provision/persist/mirror"
	"github.com/croft-edge/croft/provision/persist/secret"
)

// Config says what mirrors a node has.
type Config struct {
	Places []Place
	// Key is the node's. Recovery is the ID of the operator's recovery key, empty for none.
	Key      sign.KeyPair
	Recovery string
	// Store is the folder of the node's store, Birth as of mirror.Config.
	Store   string
	Birth   func() (id string, ancestors []string)
	Secrets secret.Provider
	// Fault, when set, is why there can be no mirror: all of them are down.
	Fault error
	// Changed, when set, is called after each try to bring a mirror up to date, and now and then during a long one, with its state before and after. It must not block.
	Changed func(before, after Status)
	Log     zerolog.Logger
}

// Status is the state of a mirror.
type Status struct {
	mirror.Status
	// Place is where it is, as the settings have it; Latency the mean time of its latest changes, in seconds.
	Place   string
	Latency float64
	// Behind is why the mirror is behind: the last failure, or that a change has waited for over BehindAfter. Empty when it isn't.
	Behind string
}

// BehindAfter is how long a mirror may lack a change before that is a warning.
const BehindAfter = 10 * time.Minute

// behind is why a mirror is behind; empty when it isn't.
func behind(s mirror.Status, now time.Time) string {
	switch {
	case s.Error != "":
		return s.Error
	case !s.Oldest.IsZero() && now.Sub(s.Oldest) > BehindAfter:
		return fmt.Sprintf("%d files wait to be copied, the first of them since %s", s.Names, s.Oldest.UTC().Format(time.RFC3339))
	}
	return ""
}

// Set are a node's mirrors. Without places it does nothing.
type Set struct {
	log zerolog.Logger
	all []*one
	// down are the mirrors that can't be made, until the settings are other ones.
	down []Status
}

// one is a mirror of the set.
type one struct {
	*mirror.Mirror
	place    Place
	instance string
	provider persist.Provider

	mu   sync.Mutex
	last Status
}

// New makes a node's mirrors. Nothing is asked before Run. A mirror that can't be made is down, with its error; the store is the truth without it.
func New(c Config) *Set {
	s := &Set{log: c.Log}
	for _, p := range c.Places {
		if c.Key.Private() != nil {
			p = p.For(persist.MachineID(c.Key.ID()))
		}
		instance, err := p.instance()
		if err == nil && s.has(instance) {
			c.Log.Error().Str("mirror", instance).Msg("cannot use a mirror: the same place is named twice; it is used once")
			continue
		}
		var o *one
		if err == nil {
			o, err = c.open(p)
		}
		if err != nil {
			s.fail(c, p, instance, err)
			continue
		}
		s.all = append(s.all, o)
	}
	return s
}

// has reports whether there is a mirror of that name.
func (s *Set) has(instance string) bool {
	return slices.ContainsFunc(s.Status(), func(is Status) bool { return is.Instance == instance })
}

// fail keeps a mirror that can't be made.
func (s *Set) fail(c Config, p Place, instance string, err error) {
	c.Log.Error().Err(err).Str("mirror", instance).Msg("a mirror of the store can't be made; the node goes on without it")
	is := Status{Status: mirror.Status{Instance: instance, Error: err.Error(), Since: time.Now().UTC()}, Place: p.Text, Behind: err.Error()}
	s.down = append(s.down, is)
	if c.Changed != nil {
		c.Changed(Status{}, is)
	}
}

func (c Config) open(p Place) (*one, error) {
	if c.Fault != nil {
		return nil, c.Fault
	}
	o := &one{place: p}
	var err error
	if o.provider, err = p.open(c.Secrets, false); err != nil {
		return nil, err
	}
	o.instance = o.provider.Instances()[0]
	o.Mirror, err = mirror.New(mirror.Config{
		Provider: o.provider, Instance: o.instance, Source: mirror.Folder(c.Store), Birth: c.Birth, Key: c.Key, Recovery: c.Recovery, Log: c.Log,
		Changed: func(now mirror.Status) {
			before, after := o.changed(now)
			if c.Changed != nil {
				c.Changed(before, after)
			}
		},
	})
	if err != nil {
		closed(o.provider)
		return nil, err
	}
	return o, nil
}

// changed keeps the state of a mirror after a try.
func (o *one) changed(now mirror.Status) (before, after Status) {
	after = o.status(now)
	o.mu.Lock()
	defer o.mu.Unlock()
	before, o.last = o.last, after
	return before, after
}

func (o *one) status(now mirror.Status) Status {
	return Status{
		Status: now, Place: o.place.Text, Latency: o.provider.InstanceStatus(o.instance).MeanPersistLatency, Behind: behind(now, time.Now()),
	}
}

// Begin tells the mirrors that the store begins a change, which Mark ends. It never waits: it is for store.Config.OnBegin.
func (s *Set) Begin() {
	for _, o := range s.all {
		o.Begin()
	}
}

// Mark tells the mirrors that names of the store have changed. It never waits: it is for store.Config.OnChange.
func (s *Set) Mark(names ...string) {
	for _, o := range s.all {
		o.Mark(names...)
	}
}

// Run keeps the mirrors until ctx is done.
func (s *Set) Run(ctx context.Context) error {
	var wait sync.WaitGroup
	for _, o := range s.all {
		wait.Go(func() {
			_ = supervise.Keep(ctx, s.log, "mirror "+o.instance, supervise.DefaultBackoff(), o.Mirror.Run) // it logs what ends it
		})
	}
	<-ctx.Done()
	wait.Wait()
	for _, o := range s.all {
		closed(o.provider)
	}
	return nil
}

// Check has all mirrors compared with the store soon.
func (s *Set) Check() {
	for _, o := range s.all {
		o.Check()
	}
}

// Replace gives up what a held mirror has: it becomes this store's. node.NotExist when there is no mirror of that name; see mirror.Replace.
func (s *Set) Replace(ctx context.Context, instance string) error {
	names := make([]string, 0, len(s.all))
	for _, o := range s.all {
		if o.instance == instance {
			return o.Replace(ctx)
		}
		names = append(names, o.instance)
	}
	for _, is := range s.down {
		if is.Instance == instance {
			return node.Errorf(node.Refused, "cannot replace mirror %q: %s", instance, is.Error)
		}
		names = append(names, is.Instance)
	}
	return node.Errorf(node.NotExist, "cannot replace mirror %q: there is none of that name, there are %q", instance, names)
}

// Status is the state of all mirrors. It never waits.
func (s *Set) Status() []Status {
	out := make([]Status, 0, len(s.all)+len(s.down))
	for _, o := range s.all {
		out = append(out, o.status(o.Mirror.Status()))
	}
	return append(out, s.down...)
}

// Open opens the place that a restore reads: that of an instance's name among places, or one that is written as the settings have it. It
// returns the instance's name, and close closes what it has opened.
func Open(from string, places []Place, machine persist.MachineID, secrets secret.Provider) (p persist.Provider, instance string, closeAll func(), err error) {
	wanted := places
	if one, err := Parse(from); err == nil {
		wanted = []Place{one}
	}
	var names []string
	for _, place := range wanted {
		p, err := place.For(machine).open(secrets, true)
		if err != nil {
			return nil, "", nil, err
		}
		name := p.Instances()[0]
		if name == from || place.Text == from {
			return p, name, func() { closed(p) }, nil
		}
		closed(p)
		names = append(names, name)
	}
	return nil, "", nil, node.WithKind(node.NotExist, errors.Errorf("cannot use mirror %q: the settings have %q; or name its place: %s", from, names, Allowed))
}
