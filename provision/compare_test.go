package provision

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/store"
)

// recordOf is a record of that ID, type and phase, made at that minute; of a
// network, name is its name.
func recordOf(id string, t workload.Type, phase store.Phase, minute int, name string) store.Record {
	data, _ := json.Marshal(map[string]string{"name": name})
	return store.Record{Phase: phase, Attempts: 1, Hash: workload.Hash{7}, Reservation: &workload.Reservation{
		ID: id, Type: t, User: "u", Data: data, Created: time.Unix(int64(60*minute), 0), Duration: time.Hour,
	}}
}

func TestDifferences(t *testing.T) {
	net, vol := workload.TypeNetwork, workload.TypeVolume
	judged := recordOf("2-1", net, store.Retry, 2, "a")
	judged.Attempts = 0
	for name, tt := range map[string]struct {
		recs  []store.Record
		there seen
		want  []string
	}{
		"all is as it was made":          {[]store.Record{recordOf("1-1", vol, store.Deployed, 1, "")}, seen{vol: {"1-1": {}}}, nil},
		"it is gone":                     {[]store.Record{recordOf("1-1", vol, store.Deployed, 1, "")}, seen{vol: {}}, []string{"1-1 gone"}},
		"it is changed":                  {[]store.Record{recordOf("1-1", vol, store.Deployed, 1, "")}, seen{vol: {"1-1": {Drift: "no limit"}}}, []string{"1-1 no limit"}},
		"its module didn't answer":       {[]store.Record{recordOf("1-1", vol, store.Deployed, 1, "")}, seen{net: {}}, nil},
		"it is of its hash":              {[]store.Record{recordOf("1-1", vol, store.Deployed, 1, "")}, seen{vol: {"1-1": {Hash: workload.Hash{7}}}}, nil},
		"it is another reservation's":    {[]store.Record{recordOf("1-1", vol, store.Deployed, 1, "")}, seen{vol: {"1-1": {Hash: workload.Hash{8}}}}, []string{"1-1 gone"}},
		"an intent may be half done":     {[]store.Record{recordOf("1-1", vol, store.Intent, 1, "")}, seen{vol: {"1-1": {}}}, []string{"1-1 "}},
		"what isn't to be there":         {[]store.Record{recordOf("1-1", vol, store.Failed, 1, ""), recordOf("2-1", vol, store.Ended, 1, "")}, seen{vol: {}}, nil},
		"what has a timer":               {[]store.Record{recordOf("1-1", vol, store.Retry, 1, ""), recordOf("2-1", vol, store.Leaving, 1, "")}, seen{vol: {}}, nil},
		"networks come before volumes":   {[]store.Record{recordOf("1-1", vol, store.Deployed, 1, ""), recordOf("2-1", net, store.Deployed, 1, "a")}, seen{vol: {}, net: {}}, []string{"2-1 gone", "1-1 gone"}},
		"the newest of a name counts":    {[]store.Record{recordOf("1-1", net, store.Deployed, 1, "a"), recordOf("2-1", net, store.Deployed, 2, "a"), recordOf("3-1", net, store.Deployed, 1, "b")}, seen{net: {}}, []string{"2-1 gone", "3-1 gone"}},
		"the newest of a name is there":  {[]store.Record{recordOf("1-1", net, store.Deployed, 1, "a"), recordOf("2-1", net, store.Deployed, 2, "a")}, seen{net: {"2-1": {}}}, nil},
		"the newest of a name has ended": {[]store.Record{recordOf("1-1", net, store.Deployed, 1, "a"), recordOf("2-1", net, store.Ended, 2, "a")}, seen{net: {}}, []string{"1-1 "}},
		"the newest was only judged":     {[]store.Record{recordOf("1-1", net, store.Deployed, 1, "a"), judged}, seen{net: {}}, []string{"1-1 gone"}},
		"the newest was refused":         {[]store.Record{recordOf("1-1", net, store.Deployed, 1, "a"), recordOf("2-1", net, store.Failed, 2, "a")}, seen{net: {}}, []string{"1-1 gone"}},
		"an older intent ends":           {[]store.Record{recordOf("1-1", net, store.Intent, 1, "a"), recordOf("2-1", net, store.Deployed, 2, "a")}, seen{net: {"2-1": {}}}, []string{"1-1 "}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, d := range differences(tt.recs, tt.there) {
				got = append(got, d.rec.ID()+" "+d.what)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("differs: %q, want %q", got, tt.want)
			}
		})
	}
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

func (wallClock) Now() (time.Time, bool) { return time.Now(), true }
func (wallClock) Removable() bool        { return true }

// BenchmarkLook is one comparison of what was seen of a type, as it is made
// every ten seconds: without a difference, and with networks of which each was
// updated once, so that the newest of each name has to be found.
func BenchmarkLook(b *testing.B) {
	for _, n := range []int{500, 10000} {
		for _, t := range []workload.Type{workload.TypeVolume, workload.TypeNetwork} {
			b.Run(fmt.Sprintf("%s/%d", t, n), func(b *testing.B) {
				there := map[string]provisioner.Seen{}
				var recs []store.Record
				for i := range n {
					id := fmt.Sprintf("%d-1", i+1)
					recs = append(recs, recordOf(id, t, store.Deployed, i, fmt.Sprint("net", i/2)))
					if t == workload.TypeVolume || i%2 == 1 {
						there[id] = provisioner.Seen{}
					}
				}
				e := assemble(Config{Records: fixedRecords{recs: recs}, Clock: wallClock{}, Log: zerolog.Nop()})
				for b.Loop() {
					if e.differs(t, there) {
						b.Fatal("something differs")
					}
				}
			})
		}
	}
}
