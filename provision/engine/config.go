package engine

import (
	"context"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/admit"
	"github.com/croft-edge/croft/provision/drift"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/refusals"
	"github.com/croft-edge/croft/provision/source"
	"github.com/croft-edge/croft/provision/store"
)

// Policy judges reservations. It is pure: it knows only its arguments, and may be
// called from several goroutines. Its errors carry a node.Kind; their text is
// shown to users.
type Policy interface {
	// Authentic checks that r was signed by its user for this node, in an accepted
	// version. Reservations that aren't authentic are dropped without an answer.
	Authentic(r *workload.Reservation) error
	// Acceptable checks that an authentic r may be accepted now: its dates, the
	// store's birth. Transient while the time can't be trusted.
	Acceptable(r *workload.Reservation) error
	// Deletion and Renewal check that r's user signed it and that it may be followed now.
	Deletion(r *workload.Reservation) error
	Renewal(r *workload.Reservation) error
	// Validate reads r's data as its type's. Invalid names the field, its value and the allowed values.
	Validate(r *workload.Reservation) error
}

// Admission says whether there is room for a workload beside what the node has.
type Admission interface {
	// Offer asks for the node's total capacity. It may wait for the modules.
	Offer(ctx context.Context) (admit.Offer, error)
	// Demand is the capacity that a reservation takes; zero when that can't be read.
	Demand(r *workload.Reservation) provisioner.Demand
	// Wait checks that r, which can't be judged yet, may wait beside those of its
	// user: Refused when these are too many.
	Wait(r *workload.Reservation, user, all store.Usage) error
	// Admit returns NoSpace with need and free, Refused for a limit of the user's
	// or a user who isn't allowed here. It waits for nothing.
	Admit(r *workload.Reservation, user, all store.Usage, offer admit.Offer) error
}

// Clock is the time, how far it can be trusted, and how long the node has been up.
type Clock interface {
	Read() clock.Reading
}

// Feedback sends results to the explorer. It is a query on the records.
type Feedback interface {
	// Run sends undelivered results until ctx is done, then tries until its own deadline.
	Run(ctx context.Context) error
	// Kick says that there is something new to send. It doesn't block.
	Kick()
}

// Config holds an engine's parts and limits.
type Config struct {
	// Records is the node's durable memory.
	Records store.Records
	// Sources yield arriving reservations. One with a Reset method is reset when
	// records were lost, so that it delivers everything again.
	Sources []source.Source
	// Provisioners are those of the types that this node offers.
	Provisioners map[workload.Type]provisioner.Provisioner
	Policy       Policy
	// Admission may be nil: then there is always room.
	Admission Admission
	Feedback  Feedback
	Clock     Clock
	// Orphans may be nil: then a restart forgets when each was first seen.
	Orphans drift.OrphanBook
	// Board shows what the engine decides; nil for nobody.
	Board Board
	// Refusals counts the reservations that aren't taken; nil for nobody.
	Refusals *refusals.Counts
	Log      zerolog.Logger

	// Limits are the deadlines and waits; a zero one gets its default.
	Limits Limits
}

// Limits are the engine's deadlines, waits and bounds.
type Limits struct {
	// Judge bounds one call that judges or fetches; Provision and Decommission one
	// such effect; List one module's answer.
	Judge        time.Duration
	Provision    time.Duration
	Decommission time.Duration
	List         time.Duration
	// Start is how long after the engine's start a module may be silent without that counting as a failed fetch of a workload: modules start with
	// the node, some of them later than the engine.
	Start time.Duration
	// Turn is how long the engine's thread may be at one step, such as a write, before the engine counts as stuck.
	Turn time.Duration
	// Shutdown is how long effects in flight may go on after the stop.
	Shutdown time.Duration
	// Grace is how long an orphan, or an evicted workload's data, is kept.
	Grace time.Duration
	// Drift is the interval between two listings of a module's workloads, give or take
	// a fifth; Look between two looks at a held workload and at the wall clock.
	Drift time.Duration
	Look  time.Duration
	// Retry is the backoff between failed attempts.
	Retry source.Backoff
	// Refused bounds the refused reservations remembered until their signed end.
	// Beyond it one is forgotten once the explorer has the answer.
	Refused int
	// Postponed bounds the reservations that wait to be judged; beyond it a new one
	// stays with its source.
	Postponed int
	// Round is how many events are decided together and share a durable write.
	Round int
}

// DefaultLimits are the values of a zero Limits.
func DefaultLimits() Limits {
	return Limits{
		Judge:        10 * time.Second,
		Provision:    2 * time.Minute,
		Decommission: 2 * time.Minute,
		List:         10 * time.Second,
		Start:        2 * time.Minute,
		Turn:         time.Minute,
		Shutdown:     5 * time.Second,
		Grace:        7 * 24 * time.Hour,
		Drift:        10 * time.Second,
		Look:         5 * time.Second,
		Retry:        source.Backoff{Base: 2 * time.Second, Max: 10 * time.Minute},
		Refused:      10000,
		Postponed:    10000,
		Round:        64,
	}
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	for _, each := range []struct {
		value *time.Duration
		zero  time.Duration
	}{
		{&l.Judge, d.Judge}, {&l.Provision, d.Provision}, {&l.Decommission, d.Decommission}, {&l.List, d.List},
		{&l.Start, d.Start}, {&l.Turn, d.Turn}, {&l.Shutdown, d.Shutdown}, {&l.Grace, d.Grace}, {&l.Drift, d.Drift}, {&l.Look, d.Look},
		{&l.Retry.Base, d.Retry.Base}, {&l.Retry.Max, d.Retry.Max},
	} {
		if *each.value == 0 {
			*each.value = each.zero
		}
	}
	for _, each := range []struct {
		value *int
		zero  int
	}{{&l.Refused, d.Refused}, {&l.Postponed, d.Postponed}, {&l.Round, d.Round}} {
		if *each.value == 0 {
			*each.value = each.zero
		}
	}
	return l
}

// Validate names the missing fields.
func (c Config) Validate() error {
	for _, need := range []struct {
		name    string
		missing bool
	}{
		{"Records", c.Records == nil},
		{"Sources", len(c.Sources) == 0},
		{"Policy", c.Policy == nil},
		{"Feedback", c.Feedback == nil},
		{"Clock", c.Clock == nil},
	} {
		if need.missing {
			return errors.Errorf("cannot make an engine: %s is missing", need.name)
		}
	}
	for t, p := range c.Provisioners {
		if !t.Known() || p == nil {
			return errors.Errorf("cannot make an engine: provisioner of %q must be of a known type and not nil", t)
		}
	}
	l := c.Limits
	for _, each := range []struct {
		name  string
		value int64
	}{
		{"Judge", int64(l.Judge)}, {"Provision", int64(l.Provision)}, {"Decommission", int64(l.Decommission)}, {"List", int64(l.List)},
		{"Start", int64(l.Start)}, {"Turn", int64(l.Turn)}, {"Shutdown", int64(l.Shutdown)}, {"Grace", int64(l.Grace)}, {"Drift", int64(l.Drift)}, {"Look", int64(l.Look)},
		{"Retry.Base", int64(l.Retry.Base)}, {"Retry.Max", int64(l.Retry.Max)},
		{"Refused", int64(l.Refused)}, {"Postponed", int64(l.Postponed)}, {"Round", int64(l.Round)},
	} {
		if each.value < 0 {
			return errors.Errorf("cannot make an engine: limit %s is %d, it must not be negative", each.name, each.value)
		}
	}
	return nil
}
