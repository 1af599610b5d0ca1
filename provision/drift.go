package provision

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/source"
	"github.com/croft-edge/croft/provision/store"
)

// Drift is what was last seen to differ of a workload from how it was made.
type Drift struct {
	At   time.Time `json:"at"`
	What string    `json:"what"`
}

// watch is the source of what is gone or changed under the node. It looks from
// goroutines of its own, and only reads.
func (e *NodeEngine) watch(stop context.Context) <-chan source.Item {
	looks := map[workload.Type]source.Look{}
	for t, p := range e.provisioners {
		looks[t] = func(ctx context.Context) (found map[string]provisioner.Seen, err error) {
			err = e.guard("list", string(t), func() (err error) {
				found, err = provisioner.Look(ctx, p)
				return err
			})
			return found, err
		}
	}
	s, err := source.NewDrift(source.DriftConfig{
		Looks: looks, Differs: e.differs, Every: e.limits.Drift, Deadline: e.limits.List, Log: e.log,
	})
	if err != nil {
		e.log.Error().Err(err).Msg("nothing is compared while the node runs")
		return nil
	}
	return s.Items(stop)
}

// differs reports whether the engine has anything to do about what was seen of
// a type. It runs beside the engine, which looks again before it does anything.
func (e *NodeEngine) differs(t workload.Type, found map[string]provisioner.Seen) bool {
	recs, err := e.records.List()
	if err != nil {
		return true // the engine says so
	}
	all := differences(recs, seen{t: found})
	e.drifts.calm(t, all)
	return e.straysDiffer(t, found, recs) ||
		slices.ContainsFunc(all, func(d difference) bool { return e.mayMend(d, false) })
}

// drifted compares one type of which the source saw a difference. Nothing
// changes the node beside this thread, so what is seen here is how it is.
func (e *NodeEngine) drifted(work, stop context.Context, t workload.Type) error {
	if e.isSlow(t) {
		return node.Errorf(node.Transient, "cannot compare type %q: what provides it is slow to answer", t)
	}
	found, err := e.lookAt(work, t)
	if err != nil {
		return err // the source asks again, and says so if there is no answer
	}
	recs, err := e.records.List()
	if err != nil {
		e.log.Error().Err(err).Str("step", "drift").Msg("cannot list the records")
		return err
	}
	_, err = e.compare(work, stop, comparison{recs: recs, there: seen{t: found}})
	return err
}

// noticed says that a workload has drifted.
func (e *NodeEngine) noticed(rec store.Record, what string) {
	t := rec.Reservation.Type
	if e.drifts.notice(rec.ID(), t, Drift{At: e.now(), What: workload.ErrorText(what)}, e.limits.Retry) {
		e.log.Warn().Str("id", rec.ID()).Str("type", string(t)).Str("step", "drift").Str("what", what).
			Msg("drifted: it isn't on the node as it was made; it is made right")
	}
}

// righted says that a workload that had drifted is as it was made again.
func (e *NodeEngine) righted(rec store.Record) {
	if took, times, was := e.drifts.right(rec.ID()); was {
		e.log.Info().Str("id", rec.ID()).Str("type", string(rec.Reservation.Type)).Str("step", "drift").
			Int("restored", times).Dur("took", took).Msg("back: it is on the node as it was made again")
	}
}

// Drifts returns how many workloads were seen to drift since the start, by type.
func (e *NodeEngine) Drifts() map[workload.Type]uint64 { return e.drifts.totals() }

// drifts is what is known of drift since the start. It is safe for concurrent use.
type drifts struct {
	mu    sync.Mutex
	of    map[string]*drift
	total map[workload.Type]uint64
	said  map[string]bool
}

// drift is one workload's.
type drift struct {
	kind workload.Type
	last Drift
	// open is whether it isn't right yet, since when by the time that passes.
	open  bool
	since time.Time
	// restored counts how often it was made right.
	restored int
	// row counts the times in a row that it was made right and the same differed
	// at the next look; until rest is over it isn't attempted again.
	row  int
	rest time.Time
}

func newDrifts() *drifts {
	return &drifts{of: map[string]*drift{}, total: map[workload.Type]uint64{}, said: map[string]bool{}}
}

// notice notes what differs, and reports whether that is news. What doesn't
// stay right is attempted ever more seldom.
func (d *drifts) notice(id string, t workload.Type, last Drift, backoff source.Backoff) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := d.of[id]
	if w == nil {
		w = &drift{kind: t}
		d.of[id] = w
	}
	if w.last.What != last.What {
		w.row = 0 // something else has happened to it
	}
	if w.row++; w.row > 1 {
		w.rest = time.Now().Add(backoff.Delay(w.row))
	}
	if w.open && w.last.What == last.What {
		return false
	}
	if !w.open {
		d.total[t]++
		w.since = time.Now()
	}
	w.open, w.last = true, last
	return true
}

// right notes that it is as it was made, and reports whether it wasn't: how
// long, and how often it has been made right.
func (d *drifts) right(id string) (took time.Duration, times int, was bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := d.of[id]
	if w == nil || !w.open {
		return 0, 0, false
	}
	w.open = false
	w.restored++
	return time.Since(w.since), w.restored, true
}

// calm notes that the workloads of a type that aren't in differing stayed right.
func (d *drifts) calm(t workload.Type, differing []difference) {
	d.mu.Lock()
	defer d.mu.Unlock()
	still := make(map[string]bool, len(differing))
	for _, each := range differing {
		still[each.rec.ID()] = true
	}
	for id, w := range d.of {
		if w.kind == t && !w.open && !still[id] {
			w.row, w.rest = 0, time.Time{}
		}
	}
}

// resting reports whether a workload that doesn't stay right is left alone for now.
func (d *drifts) resting(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := d.of[id]
	return w != nil && time.Now().Before(w.rest)
}

// forget drops a workload that isn't wanted any more.
func (d *drifts) forget(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.of, id)
	delete(d.said, "verify "+id)
}

// shown is how often a workload was made right, and what differed last.
func (d *drifts) shown(id string) (restored int, last *Drift) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := d.of[id]
	if w == nil {
		return 0, nil
	}
	c := w.last
	return w.restored, &c
}

func (d *drifts) totals() map[workload.Type]uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.total)
}

// once calls say the first time that key comes.
func (d *drifts) once(key string, say func()) {
	d.mu.Lock()
	known := d.said[key]
	d.said[key] = true
	d.mu.Unlock()
	if !known {
		say()
	}
}
