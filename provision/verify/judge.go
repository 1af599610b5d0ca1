package verify

import (
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/store"
)

// Clock is a Judge's view of time. *clock.Trust implements it.
type Clock interface {
	Read() clock.Reading
	// Floor is a time that has certainly passed.
	Floor() time.Time
}

// Births is a Judge's view of the store. *store.FSStore implements it.
type Births interface {
	Birth() store.Birth
	AcceptsOlder() bool
}

// Config is a Judge's configuration.
type Config struct {
	// Policy's Birth and AcceptsOlder come from Store; zero durations get their defaults.
	Policy Policy
	Clock  Clock
	Store  Births
	// Data checks a reservation's data as its type's.
	Data func(r *workload.Reservation) error
}

// Validate checks the config.
func (c Config) Validate() error {
	if _, err := sign.ParseID(c.Policy.NodeID); err != nil {
		return errors.Wrap(err, "cannot judge reservations: NodeID")
	}
	if c.Policy.MaxDuration < 0 || c.Policy.MaxFuture < 0 {
		return errors.Errorf("cannot judge reservations: MaxDuration is %s and MaxFuture %s, neither may be negative",
			c.Policy.MaxDuration, c.Policy.MaxFuture)
	}
	if c.Clock == nil || c.Store == nil || c.Data == nil {
		return errors.New("cannot judge reservations: Clock, Store and Data are required")
	}
	return nil
}

// Judge applies a Policy at the present time: it is the engine's policy.
type Judge struct {
	cfg Config
}

// New makes a Judge.
func New(c Config) (*Judge, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Policy.MaxDuration == 0 {
		c.Policy.MaxDuration = DefaultMaxDuration
	}
	if c.Policy.MaxFuture == 0 {
		c.Policy.MaxFuture = DefaultMaxFuture
	}
	return &Judge{cfg: c}, nil
}

func (j *Judge) time() Time {
	now := j.cfg.Clock.Read()
	return Time{Now: now.Now, Trusted: now.Level >= clock.Stop, Proven: now.Level == clock.Remove, Floor: j.cfg.Clock.Floor()}
}

// Authentic is Policy.Authentic.
func (j *Judge) Authentic(r *workload.Reservation) error { return j.cfg.Policy.Authentic(r) }

// Acceptable is Policy.Acceptable, now and with the store's present birth.
func (j *Judge) Acceptable(r *workload.Reservation) error {
	p := j.cfg.Policy
	p.Birth, p.AcceptsOlder = j.cfg.Store.Birth().Time, j.cfg.Store.AcceptsOlder()
	return p.Acceptable(r, j.time())
}

// Deletion is Policy.Deletion.
func (j *Judge) Deletion(r *workload.Reservation) error { return j.cfg.Policy.Deletion(r) }

// Renewal is Policy.Renewal, now.
func (j *Judge) Renewal(r *workload.Reservation) error { return j.cfg.Policy.Renewal(r, j.time()) }

// Validate checks r's data as its type's. Invalid when it is wrong.
func (j *Judge) Validate(r *workload.Reservation) error {
	err := j.cfg.Data(r)
	if node.KindOf(err) == node.Internal {
		return node.WithKind(node.Invalid, err)
	}
	return err
}
