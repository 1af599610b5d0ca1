package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/admit"
	"github.com/croft-edge/croft/provision/lifecycle"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/store"
)

// anyPolicy accepts everything.
type anyPolicy struct{}

func (anyPolicy) Authentic(*workload.Reservation) error  { return nil }
func (anyPolicy) Acceptable(*workload.Reservation) error { return nil }
func (anyPolicy) Deletion(*workload.Reservation) error   { return nil }
func (anyPolicy) Renewal(*workload.Reservation) error    { return nil }
func (anyPolicy) Validate(*workload.Reservation) error   { return nil }

type noFeedback struct{}

func (noFeedback) Run(ctx context.Context) error { <-ctx.Done(); return nil }
func (noFeedback) Kick()                         {}

// pickyRecords refuse some writes, and note how many records each had.
type pickyRecords struct {
	store.Records
	refuse func(store.Record) error
	most   int
}

func (p *pickyRecords) Write(recs ...store.Record) ([]store.Record, error) {
	p.most = max(p.most, len(recs))
	for _, rec := range recs {
		if p.refuse == nil {
			break
		}
		if err := p.refuse(rec); err != nil {
			return nil, err
		}
	}
	return p.Records.Write(recs...)
}

// deskOf is a desk that only the test drives.
func deskOf(t *testing.T) (*desk, *pickyRecords) {
	t.Helper()
	now := &simClock{now: time.Unix(3600, 0), level: clock.Remove}
	records, err := store.Open(store.Config{Disk: newSimDisk(), Clock: now, BirthClock: vouched{now}, NewNode: true})
	if err != nil {
		t.Fatal(err)
	}
	picky := &pickyRecords{Records: records}
	admission, err := admit.New(admit.Config{
		Demand: func(*workload.Reservation) (provisioner.Demand, error) { return provisioner.Demand{}, nil },
		Offer:  func(context.Context) (admit.Offer, error) { return admit.Offer{}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	parts := &Config{
		Records: picky, Provisioners: map[workload.Type]provisioner.Provisioner{workload.TypeDebug: idle{}},
		Policy: anyPolicy{}, Admission: admission, Feedback: noFeedback{}, Clock: now, Log: zerolog.Nop(),
	}
	d := newDesk(parts, Assemble(parts).notes)
	d.flights.start = func(*flight) {}
	d.judging.ask = func() {}
	return d, picky
}

// idle does nothing.
type idle struct{}

func (idle) Provision(context.Context, *workload.Reservation) (json.RawMessage, error) {
	return nil, nil
}
func (idle) Decommission(context.Context, *workload.Reservation) error { return nil }
func (idle) Remove(context.Context, provisioner.Label) error           { return nil }
func (idle) List(context.Context) ([]string, error)                    { return nil, nil }

// comes makes an arrival of a reservation; told receives its outcome.
func comes(i int, told *[]error) *arrival {
	r := &workload.Reservation{
		ID: fmt.Sprintf("%d-1", i), User: "u", Type: workload.TypeDebug, Created: time.Unix(3000, 0), Duration: time.Hour, Data: json.RawMessage(`{}`),
	}
	return &arrival{reservation: r, hash: workload.Hash{1, byte(i), byte(i >> 8)}, done: func(err error) { *told = append(*told, err) }}
}

// A reservation admitted in one round with one that the store refuses is accepted:
// its source is told that it is durable, and never delivers it again.
func TestARefusedRecordCostsNoOtherThatIsAdmitted(t *testing.T) {
	d, records := deskOf(t)
	records.refuse = func(rec store.Record) error {
		if rec.ID() == "1-1" {
			return node.Errorf(node.Invalid, "cannot store record 1-1")
		}
		return nil
	}
	var first, bad, good []error
	d.round([]input{d.intake.arrived(comes(3, &first)), d.intake.arrived(comes(1, &bad)), d.intake.arrived(comes(2, &good))})
	d.round(d.judging.offered(admit.Offer{}, nil)) // the question was for the first of them
	d.round(d.judging.offered(admit.Offer{}, nil))
	if len(bad) != 1 || bad[0] == nil {
		t.Errorf("the source of what was refused heard %v", bad)
	}
	rec, err := records.Record("2-1")
	if len(good) != 1 || good[0] != nil || err != nil || rec.Phase != lifecycle.Intent || len(first) != 1 {
		t.Errorf("the other's source heard %v; its record: %v, %v", good, rec.Phase, err)
	}
}

// However many records end at once, the events that share a durable write are no
// more than a round: each decision looks at the earlier ones.
func TestDueRecordsGoInRounds(t *testing.T) {
	d, records := deskOf(t)
	d.parts.Limits.Round = 8
	for i := range 100 {
		rec := recordOf(fmt.Sprintf("%d-1", i+1), workload.TypeDebug, store.Deployed)
		rec.Hash, rec.Begun = workload.Hash{2, byte(i)}, true
		if _, err := records.Write(rec); err != nil {
			t.Fatal(err)
		}
	}
	records.most = 0
	var inputs []input
	for i := range 100 {
		inputs = append(inputs, d.intake.woken(fmt.Sprintf("%d-1", i+1)))
	}
	d.parts.Clock.(*simClock).pass(24 * time.Hour)
	d.round(inputs)
	if n := records.Count(lifecycle.Leaving); n != 100 || records.most > 8 {
		t.Errorf("%d are leaving, want 100; a write had %d records, want 8 at most", n, records.most)
	}
}
