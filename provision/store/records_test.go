package store_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/store"
)

func wantKind(t *testing.T, what string, err error, kind node.Kind) {
	t.Helper()
	if node.KindOf(err) != kind {
		t.Errorf("%s: %v (%s), want %q", what, err, node.KindOf(err), kind)
	}
}

func ids(rs []store.Record) string {
	var out []string
	for _, r := range rs {
		out = append(out, r.ID())
	}
	return strings.Join(out, " ")
}

// finish finishes a record and returns it.
func finish(t *testing.T, s *store.FSStore, r store.Record) store.Record {
	t.Helper()
	out, err := one(s, r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Records are read back byte for byte, also after a restart.
func TestRecordsSurvive(t *testing.T) {
	root := t.TempDir()
	s := open(t, store.Config{Root: root})
	data := "{\"size\": 1,  \"type\":\"SSD\"\t}" // not how JSON would write it
	r := reservation(workload.TypeVolume, "1-1", data, time.Now(), time.Hour)
	if err := r.SignDeletion(workload.Deletion{Created: time.Now()}, testKey()); err != nil {
		t.Fatal(err)
	}
	if err := r.SignRenewal(workload.Renewal{Expires: time.Now().Add(2 * time.Hour)}, testKey()); err != nil {
		t.Fatal(err)
	}
	rec := answered(record(r, store.Intent), store.Retry, workload.StateError)
	rec.Attempts, rec.Cause, rec.NextAttempt = 3, "cannot <&> \"x\"", time.Now().Add(time.Minute).UTC()
	rec.Deployed, rec.End = time.Now().UTC(), workload.StateExpired
	rec.Result.Error, rec.Result.Data = "cannot \xff", json.RawMessage(`{ "a":"<&>" }`)
	before := finish(t, s, rec)
	s.Close()
	s = open(t, store.Config{Root: root})
	after, err := s.Record("1-1")
	if err != nil {
		t.Fatal(err)
	}
	if string(after.Reservation.Data) != data || string(after.Result.Data) != `{ "a":"<&>" }` {
		t.Errorf("data %q, result's %q", after.Reservation.Data, after.Result.Data)
	}
	if !equalJSON(t, before, after) || after.Result.NodeID != r.NodeID {
		t.Errorf("came back as\n%+v\n%+v, want\n%+v\n%+v", after, after.Result, before, before.Result)
	}
	for what, err := range map[string]error{
		"reservation": workload.Verify(after.Reservation),
		"deletion":    workload.VerifyDeletion(after.Reservation),
		"renewal":     workload.VerifyRenewal(after.Reservation),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := after.Result.SigningBytes(); err != nil {
		t.Errorf("the result can't be signed: %v", err)
	}
}

// The store numbers the results; a result is replaced by a newer one, never lost.
func TestResultsAreNumbered(t *testing.T) {
	s := open(t, store.Config{Root: t.TempDir()})
	r1, r2 := record(volume("1-1", time.Now(), time.Hour), store.Intent), record(volume("2-1", time.Now(), time.Hour), store.Intent)
	for _, r := range []store.Record{r1, r2} {
		if err := put(s, r); err != nil {
			t.Fatal(err)
		}
	}
	a := finish(t, s, answered(r2, store.Deployed, workload.StateOK))
	b := finish(t, s, answered(r1, store.Deployed, workload.StateOK))
	if a.Result.Sequence >= b.Result.Sequence || a.Result.Sequence < 1 {
		t.Errorf("numbers %d, %d", a.Result.Sequence, b.Result.Sequence)
	}
	if a.Result.Birth != s.Birth().ID || a.Result.ID != "2-1" || !bytes.Equal(a.Result.Hash, r2.Hash[:]) || a.Result.Type != workload.TypeVolume {
		t.Errorf("result %+v", a.Result)
	}
	owed, err := s.Undelivered()
	if err != nil || ids(owed) != "2-1 1-1" {
		t.Errorf("owed: %s, %v, want 2-1 1-1", ids(owed), err)
	}

	// An acknowledgement of another result than the present one is ignored.
	for _, sequence := range []int64{0, a.Result.Sequence - 1, a.Result.Sequence + 1} {
		if err := s.Acknowledge(store.Receipt{ID: "2-1", Sequence: sequence}); err != nil {
			t.Error(err)
		}
	}
	if got, _ := s.Record("2-1"); got.Delivered {
		t.Error("delivered by an acknowledgement of another answer")
	}
	if err := s.Acknowledge(store.Receipt{ID: "2-1", Sequence: a.Result.Sequence}); err != nil {
		t.Error(err)
	}
	// A caller's copy that predates the acknowledgement doesn't undo it.
	stale := a
	stale.Phase, stale.Delivered = store.Leaving, false
	if err := put(s, stale); err != nil {
		t.Error(err)
	}
	// Nor does a copy without a result remove it.
	none := a
	none.Phase, none.Result = store.Leaving, nil
	if err := put(s, none); err != nil {
		t.Error(err)
	}
	got, _ := s.Record("2-1")
	if !got.Delivered || got.Result == nil || got.Phase != store.Leaving {
		t.Errorf("after a stale copy: %+v", got)
	}
	for range 2 {
		if err := s.Resend("2-1"); err != nil {
			t.Error(err)
		}
	}
	if owed, _ := s.Undelivered(); ids(owed) != "2-1 1-1" {
		t.Errorf("owed after resend: %s", ids(owed))
	}
	fresh := got
	fresh.Result = &workload.Result{State: workload.StateDeleted}
	if c := finish(t, s, fresh); c.Result.Sequence <= b.Result.Sequence || c.Delivered {
		t.Errorf("the newer result has number %d, delivered %v", c.Result.Sequence, c.Delivered)
	}
	// A copy with an older result than the record's doesn't restore that.
	if err := put(s, a); err != nil {
		t.Error(err)
	}
	if got, _ := s.Record("2-1"); got.Result.State != workload.StateDeleted {
		t.Errorf("an older answer is back: %+v", got.Result)
	}
}

// No reservation takes another's place, by its ID or by its hash.
func TestConflicts(t *testing.T) {
	s := open(t, store.Config{Root: t.TempDir()})
	r := volume("1-1", time.Now(), time.Hour)
	if err := put(s, record(r, store.Intent)); err != nil {
		t.Fatal(err)
	}
	other := record(volume("1-1", time.Now(), time.Hour), store.Intent)
	wantKind(t, "an ID with another hash", put(s, other), node.Exist)
	replay := *r
	replay.ID = "2-1"
	wantKind(t, "a hash under another ID", put(s, record(&replay, store.Intent)), node.Exist)
	if got, _ := s.Record("1-1"); got.Hash != record(r, store.Intent).Hash {
		t.Error("the record was changed")
	}

	done := finish(t, s, answered(record(&replay, store.Dismissed), store.Dismissed, workload.StateError))
	if found, err := s.ByHash(done.Hash); err != nil || found.ID() != "1-1" {
		t.Errorf("by hash: %v, %v, want 1-1", found.Reservation, err)
	}
	if err := s.Acknowledge(store.Receipt{ID: "2-1", Sequence: done.Result.Sequence}); err != nil {
		t.Fatal(err)
	}
	_, err := s.Record("2-1")
	wantKind(t, "a dismissed one that was delivered", err, node.NotExist)
	if _, err := s.ByHash(done.Hash); err != nil {
		t.Errorf("the one it was a replay of: %v", err)
	}
}

func TestBadRecords(t *testing.T) {
	root := t.TempDir()
	s := open(t, store.Config{Root: root})
	good := record(volume("1-1", time.Now(), time.Hour), store.Intent)
	for what, spoil := range map[string]func(r *store.Record){
		"no reservation": func(r *store.Record) { r.Reservation = nil },
		"no hash":        func(r *store.Record) { r.Hash = workload.Hash{} },
		"no phase":       func(r *store.Record) { r.Phase = "" },
		"another phase":  func(r *store.Record) { r.Phase = "running" },
		"no ID":          func(r *store.Record) { r.Reservation.ID = "" },
		"an ID like a path": func(r *store.Record) {
			r.Reservation.ID = "../../x"
		},
		"an ID like a path in numbers": func(r *store.Record) { r.Reservation.ID = "../1-1" },
		"an ID that overflows":         func(r *store.Record) { r.Reservation.ID = "18446744073709551616-1" },
	} {
		bad := good.Clone()
		spoil(&bad)
		wantKind(t, what, put(s, bad), node.Invalid)
	}
	for _, id := range []string{"../../etc/passwd", "x", "1", "-", "1-1/..", "lock", "meta/birth"} {
		_, err := s.Record(id)
		wantKind(t, id, err, node.Invalid)
		wantKind(t, id, s.Remove(id), node.Invalid)
		wantKind(t, id, s.Bury(id), node.Invalid)
		_, err = s.Get(id)
		wantKind(t, id, err, node.Invalid)
	}
	// Another spelling of a number is the same reservation.
	good.Reservation.ID = "01-001"
	if err := put(s, good); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Record("1-1"); err != nil {
		t.Error(err)
	}
}

func TestBury(t *testing.T) {
	s := open(t, store.Config{Root: t.TempDir()})
	r := record(volume("1-1", time.Now(), time.Hour), store.Intent)
	for _, p := range []store.Phase{store.Intent, store.Retry, store.Deployed, store.Leaving} {
		r.Phase = p
		if err := put(s, r); err != nil {
			t.Fatal(err)
		}
		wantKind(t, string(p), s.Bury("1-1"), node.Refused)
	}
	done := finish(t, s, answered(r, store.Ended, workload.StateDeleted))
	wantKind(t, "undelivered", s.Bury("1-1"), node.Busy)
	if err := s.Acknowledge(store.Receipt{ID: "1-1", Sequence: done.Result.Sequence}); err != nil {
		t.Fatal(err)
	}
	if err := s.Bury("1-1"); err != nil {
		t.Fatal(err)
	}
	wantKind(t, "twice", s.Bury("1-1"), node.NotExist)
	_, err := s.ByHash(r.Hash)
	wantKind(t, "its hash", err, node.NotExist)
}

// A caller that changes a returned or a written record changes nothing in the store.
func TestRecordsAreCopies(t *testing.T) {
	s := open(t, store.Config{Root: t.TempDir()})
	r := finish(t, s, answered(record(volume("1-1", time.Now(), time.Hour), store.Intent), store.Deployed, workload.StateOK))
	r.Reservation.User, r.Result.State = "changed", "changed"
	got, _ := s.Record("1-1")
	got.Reservation.User, got.Result.State = "changed", "changed"
	all, _ := s.List()
	all[0].Reservation.User = "changed"
	some, _ := s.OfType(workload.TypeVolume)
	some[0].Reservation.User = "changed"
	cached, _ := s.Get("1-1")
	cached.User = "changed"
	if got, _ := s.Record("1-1"); got.Reservation.User == "changed" || got.Result.State == "changed" {
		t.Error("the record was changed from outside")
	}
}

// The newest of a network is known for as long as an older one could arrive again, also
// when all its records are buried.
func TestNewestOfANetwork(t *testing.T) {
	root := t.TempDir()
	start := time.Now().Add(-time.Hour).UTC()
	now := fixedClock{start.Add(time.Hour)}
	s := open(t, store.Config{Root: root, Clock: now})
	key, ok := store.KeyOf(network("1-1", "net", start, 1))
	if !ok {
		t.Fatal("a network has no key")
	}
	wantNewest := func(what string, want time.Time) {
		t.Helper()
		if got, known := s.Newest(key); known == want.IsZero() || !got.Equal(want) {
			t.Errorf("%s: newest is %s, %v, want %s", what, got, known, want)
		}
	}
	wantNewest("at first", time.Time{})
	for i, created := range []time.Duration{2, 3, 1} {
		r := network(workload.ID{N: uint64(i), M: 1}.String(), "net", start.Add(created*time.Minute), time.Hour)
		if err := put(s, record(r, store.Deployed)); err != nil {
			t.Fatal(err)
		}
	}
	failed := record(network("9-1", "net", start.Add(time.Hour), time.Hour), store.Failed)
	if err := put(s, failed); err != nil {
		t.Fatal(err)
	}
	newest := start.Add(3 * time.Minute)
	wantNewest("of three, and one that was refused", newest)
	for _, id := range []string{"0-1", "1-1", "2-1"} {
		rec, _ := s.Record(id)
		rec.Phase = store.Ended
		if err := put(s, rec); err != nil {
			t.Fatal(err)
		}
		if err := s.Bury(id); err != nil {
			t.Fatal(err)
		}
		wantNewest("with "+id+" buried", newest)
	}
	s.Close()
	s = open(t, store.Config{Root: root, Clock: now})
	wantNewest("after a restart", newest)

	for _, later := range []struct {
		after time.Duration
		want  time.Time
	}{{365 * 24 * time.Hour, newest}, {367 * 24 * time.Hour, time.Time{}}} {
		s.Close()
		s = open(t, store.Config{Root: root, Clock: fixedClock{newest.Add(later.after)}})
		if err := put(s, record(volume("50-1", start, 1), store.Ended)); err != nil {
			t.Fatal(err)
		}
		if err := s.Bury("50-1"); err != nil {
			t.Fatal(err)
		}
		wantNewest("after "+later.after.String(), later.want)
	}
}

// Equal names of two users, or another split between user and name, are two networks.
func TestNetworkKeys(t *testing.T) {
	key := func(user, name string) store.NetworkKey {
		data, err := json.Marshal(map[string]string{"name": name})
		if err != nil {
			t.Fatal(err)
		}
		k, ok := store.KeyOf(&workload.Reservation{User: user, Type: workload.TypeNetwork, Data: data})
		if !ok {
			t.Fatal("no key")
		}
		return k
	}
	if key("usern", "et1") == key("user", "net1") {
		t.Error("two networks have one key")
	}
	if again := key("a", "n"); key("a", "n") != again {
		t.Error("one network has two keys")
	}
	for _, data := range []string{"", "[]", `{"name":""}`, `{"name":1}`} {
		if _, ok := store.KeyOf(&workload.Reservation{Type: workload.TypeNetwork, Data: json.RawMessage(data)}); ok {
			t.Errorf("%q has a key", data)
		}
	}
	if _, ok := store.KeyOf(volume("1-1", time.Now(), 1)); ok {
		t.Error("a volume has a network's key")
	}
}

// Counters are a query: deployed and unexpired, an updated network once, never
// below zero, the same after a restart.
func TestCounters(t *testing.T) {
	root := t.TempDir()
	start := time.Now().Truncate(time.Second)
	now := start.Add(30 * time.Minute)
	clk := &switchClock{now: now, trusted: true}
	s := open(t, store.Config{Root: root, Clock: clk})
	add := func(r *workload.Reservation, p store.Phase) {
		if err := put(s, record(r, p)); err != nil {
			t.Fatal(err)
		}
	}
	add(volume("1-1", start, time.Hour), store.Deployed)
	add(volume("2-1", start, time.Minute), store.Deployed) // over
	add(volume("3-1", start, time.Hour), store.Failed)
	add(volume("4-1", start, time.Hour), store.Intent)
	add(network("5-1", "net", start, time.Hour), store.Deployed)
	add(network("6-1", "net", start.Add(time.Second), time.Hour), store.Deployed)
	add(network("7-1", "other", start, time.Hour), store.Deployed)
	add(network("8-1", "third", start, time.Minute), store.Deployed) // over
	add(network("9-1", "third", start.Add(time.Second), time.Hour), store.Intent)
	add(network("9-2", "fourth", start, time.Hour), store.Replaced)
	for i, typ := range []workload.Type{workload.TypeContainer, workload.TypeZDB, workload.TypeKubernetes, workload.TypeDebug} {
		add(reservation(typ, workload.ID{N: uint64(10 + i)}.String(), "{}", start, time.Hour), store.Deployed)
	}
	want := workload.ProvisionCounters{Container: 1, Volume: 1, Network: 2, ZDB: 1, VM: 1, Debug: 1}
	for range 2 {
		if got := s.Counters(); got != want {
			t.Errorf("counters %+v, want %+v", got, want)
		}
		due, err := s.GetExpired()
		if err != nil || len(due) != 2 || due[0].ID != "2-1" || due[1].ID != "8-1" {
			t.Errorf("expired: %v, %v, want 2-1 8-1", due, err)
		}
		s.Close()
		s = open(t, store.Config{Root: root, Clock: clk})
	}
	clk.trusted = false
	if got := s.Counters().Volume; got != 2 {
		t.Errorf("with a clock that can't be trusted %d volumes are counted, want 2: nothing is over", got)
	}
	if due, err := s.GetExpired(); err != nil || len(due) != 0 {
		t.Errorf("with a clock that can't be trusted %v is over, %v", due, err)
	}
}

type switchClock struct {
	now     time.Time
	trusted bool
}

func (c *switchClock) Now() (time.Time, bool) { return c.now, c.trusted }

func (c *switchClock) Read() clock.Reading {
	if !c.trusted {
		return clock.Reading{Now: c.now}
	}
	return clock.Reading{Now: c.now, Level: clock.Remove}
}

// Expired reservations come earliest first, by the renewal where there is one.
func TestGetExpiredInOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		start := time.Now().UTC()
		s := open(t, store.Config{Root: fastDir(t), Clock: fixedClock{start.Add(50 * time.Minute)}})
		defer s.Close()
		var want []*workload.Reservation
		for i, m := range rapid.SliceOfN(rapid.IntRange(1, 100), 1, 12).Draw(rt, "minutes") {
			r := volume(workload.ID{N: uint64(i)}.String(), start, time.Duration(m)*time.Minute)
			if rapid.Bool().Draw(rt, "renewed") {
				r.Renewal = &workload.Renewal{Expires: start.Add(time.Duration(m+30) * time.Minute)}
			}
			if err := s.Add(r); err != nil {
				rt.Fatal(err)
			}
			if rapid.IntRange(0, 3).Draw(rt, "removed") == 0 {
				if err := s.Remove(r.ID); err != nil {
					rt.Fatal(err)
				}
				continue
			}
			if !r.Expires().After(start.Add(50 * time.Minute)) {
				want = append(want, r)
			}
		}
		slices.SortStableFunc(want, func(a, b *workload.Reservation) int { return a.Expires().Compare(b.Expires()) })
		got, err := s.GetExpired()
		if err != nil || len(got) != len(want) {
			rt.Fatalf("%d are over, %v, want %d", len(got), err, len(want))
		}
		for i := range got {
			if !got[i].Expires().Equal(want[i].Expires()) {
				rt.Errorf("number %d is over at %s, want %s", i, got[i].Expires(), want[i].Expires())
			}
		}
	})
}

// Several acknowledgements are one write; one for a missing record or an older result
// doesn't affect the others.
func TestAcknowledgeSeveral(t *testing.T) {
	s := open(t, store.Config{Root: t.TempDir()})
	var receipts []store.Receipt
	for i := range 3 {
		done := finish(t, s, answered(record(volume(fmt.Sprintf("%d-1", i+1), time.Now(), time.Duration(i+1)*time.Hour), store.Intent), store.Deployed, workload.StateOK))
		receipts = append(receipts, store.Receipt{ID: done.ID(), Sequence: done.Result.Sequence})
	}
	gone, old := store.Receipt{ID: "9-1", Sequence: 1}, store.Receipt{ID: "2-1", Sequence: receipts[1].Sequence + 1}
	if err := s.Acknowledge(gone, receipts[0], receipts[0], old, receipts[2]); err != nil {
		t.Fatal(err)
	}
	owed, err := s.Undelivered()
	if err != nil || ids(owed) != "2-1" {
		t.Errorf("owed: %s, %v, want 2-1", ids(owed), err)
	}
	if err := s.Acknowledge(); err != nil {
		t.Error(err)
	}
	wantKind(t, "no ID", s.Acknowledge(store.Receipt{ID: "x"}), node.Invalid)
}
