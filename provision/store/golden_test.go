package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/versioned"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/lifecycle"
	"github.com/croft-edge/croft/provision/store"
)

// goldenV2 copies the store that a croft of file version 2 has written.
func goldenV2(t *testing.T) string {
	t.Helper()
	root := fastDir(t)
	if err := os.CopyFS(root, os.DirFS("testdata/golden-v2")); err != nil {
		t.Fatal(err)
	}
	return root
}

// became describes a record in one line.
func became(r store.Record) string {
	words := []string{r.Reservation.User[:2], string(r.Reservation.Type), string(r.Phase)}
	say := func(is bool, word string) {
		if is {
			words = append(words, word)
		}
	}
	say(r.End != "", "end="+r.End)
	say(r.Admitted, "admitted")
	say(r.Begun, "begun")
	say(r.Uncertain, "uncertain")
	say(r.Removing, "removing")
	say(r.Older, "older")
	say(r.Unlabelled, "unlabelled")
	say(r.Name != store.NetworkKey{}, "name")
	say(r.HoldsName(), "held")
	say(len(r.Reservation.Data) > 0, "data")
	say(len(r.Reservation.Signature) > 0, "signed")
	say(r.Reservation.Deletion != nil, "deletion")
	say(r.Reservation.Renewal != nil, "renewal")
	if r.Result != nil {
		words = append(words, fmt.Sprintf("%s#%d", r.Result.State, r.Result.Sequence))
	}
	say(r.Result != nil && !r.Delivered, "owed")
	say(!r.Deployed.IsZero(), "deployed")
	say(r.Attempts > 0, fmt.Sprintf("attempts=%d", r.Attempts))
	say(!r.NextAttempt.IsZero(), "next")
	say(r.Since.Known || r.Holding.Known || r.Bound != nil || r.Pending != nil, "new")
	return strings.Join(words, " ")
}

// golden maps each record of the golden store to its migrated description.
func golden() map[string]string {
	const onNode = "admitted begun unlabelled data signed"
	return map[string]string{
		"0-1":  "6Y debug deployed " + onNode + " deployed", // the seed's
		"1-1":  "AK volume intent " + onNode + " attempts=1",
		"2-1":  "AK volume deployed " + onNode + " ok#1 deployed",
		"3-1":  "AK container waiting data signed next",
		"4-1":  "AK container fetching " + onNode,
		"5-1":  "9h container retry " + onNode + " error#2 owed attempts=3 next",
		"6-1":  "9h container retry " + onNode + " ok#3 deployed attempts=1",
		"7-1":  "9h zdb deployed " + onNode + " renewal ok#4 deployed",
		"8-1":  "9h volume held end=expired " + onNode + " ok#5 deployed",
		"9-1":  "9h volume held end=evicted " + onNode + " evicted#7 deployed next",
		"10-1": "AK container stopping end=evicted " + onNode + " ok#8 deployed next",
		"11-1": "AK container leaving end=deleted admitted begun removing unlabelled data signed deletion ok#9 deployed attempts=1",
		"12-1": "9h volume leaving end=expired admitted begun removing unlabelled data signed ok#10 deployed attempts=4 next",
		"13-1": "9h container failed error#11",
		"14-1": "9h volume refused error#12",
		"15-1": "9h volume refused older error#13 owed",
		"16-1": "AK volume dismissed error#14 owed",
		"17-1": "AK volume ended end=deleted admitted deleted#16 deployed",
		"18-1": "AK volume ended end=deleted deleted#17",
		"20-1": "AK network deployed admitted begun unlabelled name held data signed ok#18 deployed",
		"21-1": "AK network deployed admitted begun unlabelled name held data signed ok#19 deployed",
		"22-1": "9h network ended end=expired admitted name held expired#21 owed deployed",
		"23-1": "9h network refused name error#22",
		"25-1": "AK debug deployed " + onNode + " ok#25 deployed",
		"26-1": "AK kubernetes refused error#26",
		"27-1": "9h network waiting name data signed next",
		"28-1": "AK volume deployed " + onNode + " ok#27 deployed",
		"31-1": "AK volume deployed " + onNode + " ok#29 owed deployed",
	}
}

// A store that the previous croft has written can be read and continued.
func TestGoldenStore(t *testing.T) {
	root := goldenV2(t)
	at := fixedClock{time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)}
	s := open(t, store.Config{Root: root, Clock: at})
	holdsGolden(t, s)
	// Written again unchanged, each record is in this croft's format, with the same content.
	all, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	before, err := s.Write(all...)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	for _, r := range all {
		if v, _ := versioned.Split(readFile(t, filepath.Join(root, r.ID()))); v.Major != 3 {
			t.Errorf("%s is of version %s, want 3", r.ID(), v)
		}
	}
	s = open(t, store.Config{Root: root, Clock: at})
	holdsGolden(t, s)
	after, err := s.List()
	if err != nil || !equalJSON(t, before, after) {
		t.Errorf("after it was written anew (%v):\n%v\nwant\n%v", err, after, before)
	}
}

func holdsGolden(t *testing.T, s *store.FSStore) {
	t.Helper()
	want := golden()
	all, err := s.List()
	if err != nil || len(all) != len(want) {
		t.Errorf("%d records, %v, want %d", len(all), err, len(want))
	}
	for _, r := range all {
		if got := became(r); got != want[r.ID()] {
			t.Errorf("%s became\n%s\nwant\n%s", r.ID(), got, want[r.ID()])
		}
		if r.Tombstone() {
			continue
		}
		if err := workload.Verify(r.Reservation); err != nil {
			t.Errorf("%s: %v", r.ID(), err)
		}
		if h, err := r.Reservation.Hash(); err != nil || h != r.Hash {
			t.Errorf("%s: its hash isn't its reservation's: %v", r.ID(), err)
		}
	}
	t0 := time.Date(2026, 3, 1, 9, 30, 0, 123456789, time.UTC)
	if b := s.Birth(); b.ID != "244a3d90d4fd4fe0fdfc03599d853178" || !b.Time.Equal(t0) || !s.AcceptsOlder() {
		t.Errorf("birth %+v, accepts older %v", b, s.AcceptsOlder())
	}
	if c := s.Cursor(); c != (explorer.Cursor{Epoch: "epoch-1", Change: 4711}) {
		t.Errorf("cursor %+v", c)
	}
	if m := s.Mark(); m.BootID != "0b7e4c6e-8c55-4b7c-9b8b-0d6b5f2f9f10" || !m.Time.Equal(t0.Add(31*time.Minute)) {
		t.Errorf("mark %+v", m)
	}
	if q := s.Quarantined(); len(q) != 1 || q[0] != (store.Quarantine{Name: "quarantine/30-1", ID: "30-1", Cause: "its checksum doesn't match"}) {
		t.Errorf("set aside: %v", q)
	}
	a, err := s.Record("20-1")
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Record("22-1")
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[store.NetworkKey]time.Duration{
		a.Name: 21 * time.Minute, b.Name: 22 * time.Minute, workload.NetworkKey(b.Reservation.User, "gone"): 24 * time.Minute,
	} {
		if newest, known := s.Newest(key); !known || !newest.Equal(t0.Add(want)) {
			t.Errorf("the newest of %x is %s, %v, want %s", key[:4], newest, known, t0.Add(want))
		}
	}
	if _, known := s.Newest(workload.NetworkKey(b.Reservation.User, "other")); known {
		t.Error("a refused network is the newest of its name")
	}
	if c := s.Counters(); c != (workload.ProvisionCounters{Volume: 3, Network: 1, ZDB: 1, Debug: 2}) {
		t.Errorf("counters %+v", c)
	}
}

// A record of version 2 encoded in Attempts, End and Cause values that are members now.
func TestMigrate(t *testing.T) {
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	vol, net := volume("1-1", at, time.Hour), network("1-1", "net", at, time.Hour)
	evicted := &workload.Result{State: workload.StateEvicted, Sequence: 1}
	told := &workload.Result{State: workload.StateOK, Sequence: 1}
	for name, tt := range map[string]struct {
		old     store.Record
		refusal bool
		want    store.Record
	}{
		"intent":              {old: store.Record{Phase: store.Intent, Attempts: 1}, want: store.Record{Phase: store.Intent, Admitted: true, Begun: true, Unlabelled: true, Attempts: 1}},
		"deployed":            {old: store.Record{Phase: store.Deployed}, want: store.Record{Phase: store.Deployed, Admitted: true, Begun: true, Unlabelled: true}},
		"never judged":        {old: store.Record{Phase: store.Retry}, want: store.Record{Phase: store.Waiting}},
		"fetching":            {old: store.Record{Phase: store.Retry, Cause: "what it needs is being fetched"}, want: store.Record{Phase: store.Fetching, Cause: "what it needs is being fetched", Admitted: true, Begun: true, Unlabelled: true}},
		"failed once":         {old: store.Record{Phase: store.Retry, Attempts: 1}, want: store.Record{Phase: store.Retry, Attempts: 1, Admitted: true, Begun: true, Unlabelled: true}},
		"mended":              {old: store.Record{Phase: store.Retry, Deployed: at}, want: store.Record{Phase: store.Retry, Deployed: at, Admitted: true, Begun: true, Unlabelled: true}},
		"held":                {old: store.Record{Phase: store.Leaving, End: workload.StateExpired}, want: store.Record{Phase: store.Held, End: workload.StateExpired, Admitted: true, Begun: true, Unlabelled: true}},
		"evicted":             {old: store.Record{Phase: store.Leaving, End: workload.StateEvicted, Result: evicted}, want: store.Record{Phase: store.Held, End: workload.StateEvicted, Result: evicted, Admitted: true, Begun: true, Unlabelled: true}},
		"evicted, not told":   {old: store.Record{Phase: store.Leaving, End: workload.StateEvicted, Result: told}, want: store.Record{Phase: store.Stopping, End: workload.StateEvicted, Result: told, Admitted: true, Begun: true, Unlabelled: true}},
		"leaving":             {old: store.Record{Phase: store.Leaving, End: workload.StateExpired, Attempts: 1}, want: store.Record{Phase: store.Leaving, End: workload.StateExpired, Attempts: 1, Removing: true, Admitted: true, Begun: true, Unlabelled: true}},
		"leaving, not begun":  {old: store.Record{Phase: store.Leaving, End: workload.StateDeleted}, want: store.Record{Phase: store.Leaving, End: workload.StateDeleted, Admitted: true, Begun: true, Unlabelled: true}},
		"refused":             {old: store.Record{Phase: store.Failed, Cause: "cannot admit"}, want: store.Record{Phase: store.Refused, Cause: "cannot admit"}},
		"refused for its age": {old: store.Record{Phase: store.Failed, Cause: "cannot accept created: it is X, must be after Y, when the node's store was made"}, want: store.Record{Phase: store.Refused, Older: true, Cause: "cannot accept created: it is X, must be after Y, when the node's store was made"}},
		"refused for its version": {old: store.Record{Phase: store.Failed, Cause: "cannot accept version: it is 1, whose date isn't signed, and the node's store is new"},
			want: store.Record{Phase: store.Refused, Older: true, Cause: "cannot accept version: it is 1, whose date isn't signed, and the node's store is new"}},
		"replayed":             {old: store.Record{Phase: store.Failed}, refusal: true, want: store.Record{Phase: store.Dismissed}},
		"failed":               {old: store.Record{Phase: store.Failed, Attempts: 3, NextAttempt: at}, want: store.Record{Phase: store.Failed}},
		"ended":                {old: store.Record{Phase: store.Ended, End: workload.StateDeleted, Deployed: at, Cause: "x"}, want: store.Record{Phase: store.Ended, End: workload.StateDeleted, Deployed: at, Admitted: true}},
		"ended, never on it":   {old: store.Record{Phase: store.Ended, End: workload.StateDeleted}, want: store.Record{Phase: store.Ended, End: workload.StateDeleted}},
		"a network that ended": {old: store.Record{Phase: store.Ended, End: workload.StateDeleted, Reservation: net}, want: store.Record{Phase: store.Ended, End: workload.StateDeleted, Admitted: true, Reservation: net}},
		"a network":            {old: store.Record{Phase: store.Deployed, Reservation: net}, want: store.Record{Phase: store.Deployed, Admitted: true, Begun: true, Unlabelled: true, Reservation: net}},
		"a phase that wasn't":  {old: store.Record{Phase: store.Waiting}, want: store.Record{Phase: ""}},
	} {
		old := tt.old.Clone()
		if old.Reservation == nil {
			old.Reservation = vol
			tt.want.Reservation = vol
		}
		tt.want.Name, _ = store.KeyOf(tt.want.Reservation)
		if tt.want.Tombstone() {
			full := tt.want.Reservation
			tt.want.Reservation = &workload.Reservation{ID: full.ID, NodeID: full.NodeID, User: full.User, Type: full.Type, Version: full.Version,
				Created: full.Created, Duration: full.Duration}
		}
		if got := store.Migrate(old, tt.refusal); !equalJSON(t, got, tt.want) {
			t.Errorf("%s became\n%+v\nwant\n%+v", name, got, tt.want)
		}
	}
}

// The members that version 3 adds to a record are read back from its file.
func TestEveryMemberIsKept(t *testing.T) {
	root := t.TempDir()
	s := open(t, store.Config{Root: root})
	at := time.Date(2026, 3, 1, 1, 2, 3, 4, time.UTC)
	for i, p := range lifecycle.Phases() {
		r := record(volume(workload.ID{N: uint64(i) + 1, M: 1}.String(), at, time.Hour), p)
		r.Name = store.NetworkKey{1, byte(i)}
		r.Uncertain, r.Removing, r.Older, r.Unlabelled = true, true, true, true
		r.Bound = map[string]workload.Hash{"7-1": {7}, "8-1": {8}}
		r.Pending = &workload.Renewal{Expires: at.Add(time.Hour), Signature: []byte{1, 2}}
		r.Since.Floor, r.Since.Uptime, r.Since.Known, r.Since.Level = at, 90*time.Minute, true, clock.Remove
		r.Holding.Uptime, r.Holding.Known, r.Holding.Level = time.Minute, true, clock.Stop
		r.Result = &workload.Result{State: workload.StateOK}
		before := finish(t, s, r)
		s.Close()
		s = open(t, store.Config{Root: root})
		after, err := s.Record(r.ID())
		if err != nil || !equalJSON(t, before, after) {
			t.Errorf("%s came back as\n%+v\nwant\n%+v (%v)", p, after, before, err)
		}
	}
}
