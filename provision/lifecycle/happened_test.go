package lifecycle

import (
	"slices"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/pkg/workload"
)

// Each step of a record's life has its events: those of a life from its fetch to its end, and of what goes wrong on the way.
func TestWhatHappens(t *testing.T) {
	at := func(p Phase) Record { return Record{Phase: p, Admitted: true} }
	again := at(Deployed)
	again.Deployed = time.Unix(1, 0)
	expired := at(Ended)
	expired.End = workload.StateExpired
	for name, c := range map[string]struct {
		was, is Record
		event   Event
		want    []string
	}{
		"what it needs is fetched":  {at(None), at(Fetching), Event{}, []string{work.ReasonPulling}},
		"the fetch goes on":         {at(Fetching), at(Fetching), Event{}, nil},
		"it is fetched":             {at(Fetching), at(Intent), Event{}, []string{work.ReasonPulled}},
		"nothing is to be fetched":  {at(None), at(Intent), Event{}, nil},
		"another attempt":           {at(Retry), at(Intent), Event{}, nil},
		"it is there":               {at(Intent), at(Deployed), Event{}, []string{work.ReasonCreated}},
		"it is there again":         {again, again, Event{}, nil},
		"an attempt fails":          {at(Intent), at(Retry), Event{}, []string{work.ReasonRetrying}},
		"its place is taken":        {at(Intent), at(Retry), Event{Err: node.Errorf(node.Exist, "there is one")}, []string{work.ReasonErrResourceExists, work.ReasonRetrying}},
		"it fails":                  {at(Intent), Record{Phase: Failed}, Event{}, []string{work.ReasonFailed}},
		"it fails for its place":    {at(Intent), Record{Phase: Failed}, Event{Err: node.Errorf(node.Exist, "there is one")}, []string{work.ReasonErrResourceExists, work.ReasonFailed}},
		"a newer one has its place": {at(Deployed), at(Replaced), Event{}, []string{work.ReasonReplaced}},
		"it is in use":              {at(Leaving), at(Blocked), Event{}, []string{work.ReasonInUse}},
		"its data is kept":          {at(Deployed), at(Held), Event{}, []string{work.ReasonHeld}},
		"it is deleted":             {at(Leaving), at(Ended), Event{}, []string{work.ReasonDeleted}},
		"it makes room":             {at(Deployed), at(Leaving), Event{Kind: Replace}, []string{work.ReasonReplaced}},
		"it makes room at once":     {at(Retry), at(Ended), Event{Kind: Replace}, []string{work.ReasonReplaced}},
		"it leaves for its user":    {at(Deployed), at(Leaving), Event{Kind: Delete}, nil},
		"its name is deleted":       {at(Retry), at(Ended), Event{Kind: EndName}, []string{work.ReasonDeleted}},
		"its end has come":          {at(Leaving), expired, Event{}, []string{work.ReasonExpired}},
		"nobody has accepted it":    {Record{}, Record{Phase: Refused}, Event{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, e := range Happened(c.was, c.is, c.event) {
				got = append(got, e.Reason)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("the events are %v, want %v", got, c.want)
			}
		})
	}
}
