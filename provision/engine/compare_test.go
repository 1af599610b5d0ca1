package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/drift"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/store"
)

// recordOf makes a record with an ID, type and phase.
func recordOf(id string, t workload.Type, phase store.Phase) store.Record {
	return store.Record{Phase: phase, Admitted: true, Hash: workload.Hash{1}, Reservation: &workload.Reservation{
		ID: id, Type: t, User: "u", Created: time.Unix(60, 0), Duration: time.Hour,
	}}
}

// there makes a type's listing: IDs, each with its difference.
func there(what map[string]string) map[provisioner.Label]provisioner.Seen {
	out := map[provisioner.Label]provisioner.Seen{}
	for id, drift := range what {
		out[provisioner.Label{ID: id, Hash: workload.Hash{1}}] = provisioner.Seen{Drift: drift}
	}
	return out
}

func TestDifferences(t *testing.T) {
	net, vol := workload.TypeNetwork, workload.TypeVolume
	deployed := []store.Record{recordOf("1-1", vol, store.Deployed)}
	other := map[provisioner.Label]provisioner.Seen{{ID: "1-1", Hash: workload.Hash{2}}: {}}
	unlabelled := map[provisioner.Label]provisioner.Seen{{ID: "1-1"}: {}}
	for name, tt := range map[string]struct {
		recs  []store.Record
		there drift.Seen
		want  []string
	}{
		"all is as it was made":        {deployed, drift.Seen{vol: there(map[string]string{"1-1": ""})}, nil},
		"it is gone":                   {deployed, drift.Seen{vol: {}}, []string{"1-1 gone"}},
		"it is changed":                {deployed, drift.Seen{vol: there(map[string]string{"1-1": "no limit"})}, []string{"1-1 no limit"}},
		"another is in its place":      {deployed, drift.Seen{vol: other}, []string{"1-1 " + drift.Foreign}},
		"it has no label yet":          {deployed, drift.Seen{vol: unlabelled}, nil},
		"its module didn't answer":     {deployed, drift.Seen{net: {}}, nil},
		"what isn't deployed":          {recordsIn(vol), drift.Seen{vol: {}}, nil},
		"networks come before volumes": {append(deployed, recordOf("2-1", net, store.Deployed)), drift.Seen{vol: {}, net: {}}, []string{"2-1 gone", "1-1 gone"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, d := range drift.Differences(tt.recs, tt.there) {
				got = append(got, d.Record.ID()+" "+d.What)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("differs: %q, want %q", got, tt.want)
			}
		})
	}
}

// recordsIn are records in every phase but Deployed.
func recordsIn(t workload.Type) (out []store.Record) {
	for i, p := range []store.Phase{store.Waiting, store.Fetching, store.Intent, store.Retry, store.Replaced, store.Stopping, store.Held,
		store.Blocked, store.Leaving, store.Ended, store.Failed, store.Refused, store.Dismissed} {
		out = append(out, recordOf(fmt.Sprintf("%d-1", i+1), t, p))
	}
	return out
}

// fixedRecords only lists.
type fixedRecords struct {
	store.Records
	recs []store.Record
}

func (f fixedRecords) List() ([]store.Record, error) {
	out := make([]store.Record, 0, len(f.recs))
	for _, r := range f.recs {
		out = append(out, r.Clone())
	}
	return out, nil
}

type wallClock struct{}

func (wallClock) Read() clock.Reading {
	return clock.Reading{Now: time.Unix(61, 0), Level: clock.Remove}
}

// BenchmarkLook is one comparison of a type's listing, as it is made every ten
// seconds, without a difference.
func BenchmarkLook(b *testing.B) {
	for _, n := range []int{500, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			found := map[provisioner.Label]provisioner.Seen{}
			var recs []store.Record
			for i := range n {
				id := fmt.Sprintf("%d-1", i+1)
				recs = append(recs, recordOf(id, workload.TypeVolume, store.Deployed))
				found[provisioner.Label{ID: id, Hash: workload.Hash{1}}] = provisioner.Seen{}
			}
			c := &Config{Records: fixedRecords{recs: recs}, Clock: wallClock{}, Log: zerolog.Nop()}
			d := newDesk(c, Assemble(c).notes)
			for b.Loop() {
				if d.compared.differs(workload.TypeVolume, found, nil) {
					b.Fatal("something differs")
				}
			}
		})
	}
}
