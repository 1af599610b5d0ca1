package source

import (
	"context"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
)

// Look lists a module's workloads of one type on the node, with each one's
// difference from how it was made (see provisioner.Look).
type Look func(ctx context.Context) (map[provisioner.Label]provisioner.Seen, error)

// Told is how a type is looked at whose modules tell what has changed.
type Told struct {
	// Changes are the streams of the modules that have a part of its workloads. A stream
	// that is several types' is read once; so all must be comparable.
	Changes []provisioner.Changes
	// LookAt is Look of the workloads with these IDs alone; it may list others, too.
	LookAt func(ctx context.Context, ids []string) (map[provisioner.Label]provisioner.Seen, error)
}

// DriftConfig holds the parts and settings of Drift.
type DriftConfig struct {
	// Looks holds the look of each watched type; Told, for some of these, how they are
	// looked at between.
	Looks map[workload.Type]Look
	Told  map[workload.Type]Told
	// Wanted returns those of the told IDs that a look at is worth: the deployed workloads
	// of a type. Nothing else that a stream names is ever looked at.
	Wanted func(t workload.Type, ids []string) []string
	// Differs reports whether the engine has to handle a type's listing; ids are those
	// that were looked at, nil when all were. It is called from several goroutines, as
	// Wanted is, and changes nothing.
	Differs func(t workload.Type, seen map[provisioner.Label]provisioner.Seen, ids []string) bool
	// Every is the time between two looks at a type, a fifth more at most, often less: see backoff.EndTogether; after
	// repeated failures it is one to one and a half times that: a module that is back
	// must be seen soon. Resync is that time while all of a type's streams are unbroken.
	// Deadline is how long one look may take.
	Every    time.Duration
	Resync   time.Duration
	Deadline time.Duration
	Log      zerolog.Logger
}

// Validate names the missing fields.
func (c DriftConfig) Validate() error {
	switch {
	case c.Differs == nil:
		return errors.New("cannot watch for drift: Differs is nil, must be set")
	case c.Wanted == nil && len(c.Told) > 0:
		return errors.New("cannot watch for drift: Wanted is nil, must be set where Told is")
	case c.Every <= 0:
		return errors.Errorf("cannot watch for drift: Every is %s, it must be positive", c.Every)
	case c.Resync < c.Every && len(c.Told) > 0:
		return errors.Errorf("cannot watch for drift: Resync is %s, it must be at least Every, which is %s", c.Resync, c.Every)
	case c.Deadline <= 0:
		return errors.Errorf("cannot watch for drift: Deadline is %s, it must be positive", c.Deadline)
	}
	for t, told := range c.Told {
		if told.LookAt == nil || c.Looks[t] == nil {
			return errors.Errorf("cannot watch for drift: Told has %s, which must have a LookAt and a look in Looks", t)
		}
	}
	return nil
}

// Drift lists the workloads on the node, each type by itself: one whose module hangs
// delays no other, and never the engine. It yields a type when its listing differs
// from the records, and looks again once the engine is done with it. Where modules tell
// which workloads have changed it looks at these alone, soon, and at all of them after a
// gap in what it was told, and now and then.
type Drift struct {
	cfg DriftConfig
}

// NewDrift makes the source.
func NewDrift(c DriftConfig) (*Drift, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Drift{cfg: c}, nil
}

// Items implements Source. The first look is one Every after the start, or at the first
// value of a stream.
func (d *Drift) Items(ctx context.Context) <-chan Item {
	var all []func(context.Context, chan<- Item) error
	ears := map[provisioner.Changes]*ear{}
	for t, look := range d.cfg.Looks {
		told := d.cfg.Told[t]
		w := &driftWatch{cfg: d.cfg, kind: t, look: look, lookAt: told.LookAt, inbox: newInbox(len(told.Changes))}
		all = append(all, w.run)
		for _, from := range told.Changes {
			e := ears[from]
			if e == nil {
				e = &ear{from: from, log: d.cfg.Log}
				ears[from] = e
				all = append(all, e.run)
			}
			e.to = append(e.to, w.inbox)
		}
	}
	return yieldAll(ctx, d.cfg.Log, "drift", all)
}
