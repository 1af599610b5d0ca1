package store_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/atomicfile/faulty"
	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/store"
)

// lifeStart is when the records of a life were created; lifeClock is past the expiry of some.
func lifeStart() time.Time { return time.Date(2024, 5, 1, 12, 0, 0, 1, time.UTC) }

type fixedClock struct{ now time.Time }

func (c fixedClock) Now() (time.Time, bool) { return c.now, true }

func (c fixedClock) Read() clock.Reading { return clock.Reading{Now: c.now, Level: clock.Remove} }

// deed is one change of the store.
type deed struct {
	name string
	do   func(s *store.FSStore) error
	// between are states, beside those before and after, that a crash may leave, when a
	// deed takes two writes.
	between func(d *dump)
	// partly is a part of a batch: a state that a crash may leave on the disk, and a
	// failure can't leave in memory.
	partly func(d *dump)
}

// life is every kind of change that a store sees, one after the other.
func life() []deed {
	v := volume("1-1", lifeStart(), time.Hour)
	v.Nonce = nil
	n1, n2 := network("2-1", "net", lifeStart(), time.Hour), network("3-1", "net", lifeStart().Add(time.Second), time.Hour)
	fixed := []*workload.Reservation{v, n1, n2, volume("4-1", lifeStart(), time.Hour), volume("7-1", lifeStart(), time.Hour), network("8-1", "other", lifeStart(), time.Hour)}
	for i, r := range fixed { // the same bytes in every run
		r.Nonce, r.Signature = slices.Repeat([]byte{byte(i)}, workload.NonceSize), nil
		if err := r.Sign(testKey()); err != nil {
			panic(err)
		}
	}
	begin := func(r *workload.Reservation, p store.Phase) func(*store.FSStore) error {
		rec := record(r, p)
		return func(s *store.FSStore) error { return put(s, rec) }
	}
	finish := func(r *workload.Reservation, p store.Phase, state workload.State) func(*store.FSStore) error {
		rec := answered(record(r, p), p, state)
		return func(s *store.FSStore) error {
			_, err := one(s, rec)
			return err
		}
	}
	ack := func(id string) func(*store.FSStore) error {
		return func(s *store.FSStore) error {
			r, err := s.Record(id)
			if err != nil {
				return err
			}
			return s.Acknowledge(store.ReceiptFor(r))
		}
	}
	replay := *fixed[3]
	replay.ID = "5-1"
	batch := []store.Record{record(fixed[4], store.Intent), record(fixed[5], store.Waiting)}
	return []deed{
		{name: "begin", do: begin(v, store.Intent)},
		{name: "finish", do: finish(v, store.Deployed, workload.StateOK)},
		{name: "acknowledge", do: ack("1-1")},
		{name: "resend", do: func(s *store.FSStore) error { return s.Resend("1-1") }},
		{name: "acknowledge again", do: ack("1-1")},
		{name: "cursor", do: func(s *store.FSStore) error { return s.SetCursor(explorer.Cursor{Epoch: "e", Change: 7}) }},
		{name: "mark", do: func(s *store.FSStore) error {
			return s.SetMark(clock.Mark{Time: lifeStart(), Boot: time.Second, BootID: "b"})
		}},
		{name: "network", do: finish(n1, store.Deployed, workload.StateOK)},
		{name: "network, updated", do: finish(n2, store.Deployed, workload.StateOK)},
		{name: "add", do: func(s *store.FSStore) error { return s.Add(fixed[3]) }},
		{name: "dismiss", do: finish(&replay, store.Dismissed, workload.StateError)},
		{name: "dismissed, acknowledged", do: ack("5-1")},
		{name: "begin to leave", do: begin(n2, store.Leaving)},
		{name: "end", do: finish(n2, store.Ended, workload.StateExpired)},
		{name: "acknowledge the end", do: ack("3-1")},
		{name: "bury", do: func(s *store.FSStore) error { return s.Bury("3-1") }},
		{name: "remove", do: func(s *store.FSStore) error { return s.Remove("4-1") }},
		{
			name: "batch", do: func(s *store.FSStore) error {
				_, err := s.Write(batch...)
				return err
			},
			partly: func(d *dump) { d.add(batch[0]) },
		},
		{
			name: "batch with one dismissed that is delivered", do: func(s *store.FSStore) error {
				dismissed := batch[1]
				dismissed.Phase, dismissed.Delivered = store.Dismissed, true
				_, err := s.Write(dismissed, record(fixed[4], store.Deployed))
				return err
			},
			partly: func(d *dump) {
				d.Records[len(d.Records)-2] = text(record(fixed[4], store.Deployed))
			},
		},
		{name: "accept older", do: func(s *store.FSStore) error { return s.AcceptOlder() }},
		{name: "refuse older", do: func(s *store.FSStore) error { return s.RefuseOlder() }},
		{
			name: "rebirth", do: func(s *store.FSStore) error { return s.Rebirth() },
			between: func(d *dump) { d.Cursor = explorer.Cursor{} },
		},
	}
}

// dump is the whole content of a store.
type dump struct {
	Records []json.RawMessage
	Cursor  explorer.Cursor
	Mark    clock.Mark
	Reborn  bool
	Older   bool
	Newest  time.Time
	Owed    []string
	Hash    []string
}

// add adds a record without a result to the others.
func (d *dump) add(r store.Record) {
	d.Records, d.Hash = append(d.Records, text(r)), append(d.Hash, r.ID())
}

func text(r store.Record) json.RawMessage {
	b, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return b
}

func dumped(t *testing.T, s *store.FSStore, birth string) dump {
	t.Helper()
	all, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	d := dump{Cursor: s.Cursor(), Mark: s.Mark(), Older: s.AcceptsOlder(), Reborn: s.Birth().ID != birth}
	for _, r := range all {
		if r.Result != nil {
			r.Result.Birth = ""
		}
		r.Resends = 0 // a process's own count: no disk has it
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		d.Records = append(d.Records, b)
		if found, err := s.ByHash(r.Hash); err == nil {
			d.Hash = append(d.Hash, found.ID())
		}
	}
	owed, err := s.Undelivered()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range owed {
		d.Owed = append(d.Owed, r.ID())
	}
	key, _ := store.KeyOf(network("0-0", "net", lifeStart(), 1))
	d.Newest, _ = s.Newest(key)
	return d
}

func (d dump) String() string {
	b, err := json.Marshal(d)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// lived opens a store on which the first deeds were done.
func lived(t *testing.T, root string, disk *faulty.Disk, deeds []deed) *store.FSStore {
	t.Helper()
	s := open(t, store.Config{Root: root, Hook: disk.Hook, Clock: fixedClock{lifeStart().Add(time.Minute)}})
	for _, d := range deeds {
		if err := d.do(s); err != nil {
			t.Fatalf("%s: %v", d.name, err)
		}
	}
	return s
}

func reopened(t *testing.T, root string) *store.FSStore {
	t.Helper()
	return open(t, store.Config{Root: root, Clock: fixedClock{lifeStart().Add(time.Minute)}})
}

// The process dies before or after every step of every change, with the power on or cut.
// The next start finds the old state or the new one, never a torn one; the same deed can be
// repeated, or continued from there.
func TestDyingAtEveryDurableStep(t *testing.T) {
	deeds := life()
	points := 0
	next := answered(record(volume("99-1", lifeStart(), time.Hour), store.Deployed), store.Deployed, workload.StateOK)
	for i, d := range deeds {
		c := death{before: deeds[:i], deed: d, want: after(t, deeds[:i], d), given: given(t, deeds[:i]), next: next}
		for c.n = 0; ; c.n++ {
			fired := false
			for c.kept = -1; c.kept <= 1; c.kept++ {
				fired = c.happens(t)
				if !fired {
					break
				}
				points++
			}
			if !fired {
				break
			}
		}
	}
	t.Logf("%d deaths in %d changes", points, len(deeds))
	if points < 21*8*3/2 {
		t.Errorf("only %d deaths: the steps aren't seen", points)
	}
}

// death is a process's death at the n-th point of a deed.
type death struct {
	before []deed
	deed   deed
	n      int
	// kept is how many of the non-durable changes survive; -1: the power stays on.
	kept int
	// want is the state after the deed; given is the highest number given before it.
	want  dump
	given int64
	// next is the record that is finished afterwards.
	next store.Record
}

// happens reports false when the deed has no such point.
func (c death) happens(t *testing.T) bool {
	t.Helper()
	d, kept := c.deed, c.kept
	root := fastDir(t)
	disk := faulty.New()
	s := lived(t, root, disk, c.before)
	birth := s.Birth().ID
	old := dumped(t, s, birth)
	disk.DieAt(c.n)
	err := d.do(s)
	at := disk.Fired()
	fired := at.Op != ""
	if fired != (err != nil) {
		t.Fatalf("%s: died at %v, and the error is %v", d.name, at, err)
	}
	if fired {
		if now := dumped(t, s, birth).String(); now != old.String() && d.between == nil {
			t.Errorf("%s: it failed, and the memory has changed\n%s\n%s", d.name, old, now)
		}
	}
	s.Close()
	if kept >= 0 || !fired {
		if err := disk.CutPower(max(kept, 0)); err != nil {
			t.Fatal(err)
		}
	}
	again := reopened(t, root)
	defer again.Close()
	got := dumped(t, again, birth)
	allowed := []string{c.want.String()}
	if fired {
		allowed = append(allowed, old.String())
		if d.between != nil {
			d.between(&old)
			allowed = append(allowed, old.String())
		}
		if d.partly != nil {
			d.partly(&old)
			allowed = append(allowed, old.String())
		}
	}
	if !slices.Contains(allowed, got.String()) {
		t.Errorf("%s: died at %v, power cut %d:\n%s\nwant one of\n%s", d.name, at, kept, got, strings.Join(allowed, "\n"))
	}
	if q := again.Quarantined(); len(q) != 0 {
		t.Errorf("%s: died at %v: %v was set aside", d.name, at, q)
	}
	if wrong := disk.Wrong(); len(wrong) > 0 {
		t.Errorf("%s: %v", d.name, wrong)
	}
	grows(t, again, c.next, max(c.given, highest(t, again)))
	return fired
}

// after returns the state after the deed.
func after(t *testing.T, before []deed, d deed) dump {
	t.Helper()
	s := lived(t, fastDir(t), faulty.New(), append(slices.Clone(before), d))
	defer s.Close()
	birth := s.Birth().ID
	if d.name == "rebirth" {
		birth = ""
	}
	return dumped(t, s, birth)
}

// grows checks that the next result gets a number that was never given before.
func grows(t *testing.T, s *store.FSStore, next store.Record, given int64) {
	t.Helper()
	r, err := one(s, next)
	if err != nil {
		t.Fatal(err)
	}
	if r.Result.Sequence <= given {
		t.Errorf("the next result has number %d, %d was given before", r.Result.Sequence, given)
	}
}

// given is the highest number given during the deeds, including records that are gone at their end.
func given(t *testing.T, deeds []deed) int64 {
	t.Helper()
	var most int64
	s := lived(t, fastDir(t), faulty.New(), nil)
	defer s.Close()
	for _, d := range deeds {
		if err := d.do(s); err != nil {
			t.Fatal(err)
		}
		most = max(most, highest(t, s))
	}
	return most
}

func highest(t *testing.T, s *store.FSStore) int64 {
	t.Helper()
	all, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	var most int64
	for _, r := range all {
		if r.Result != nil {
			most = max(most, r.Result.Sequence)
		}
	}
	return most
}

// Every step of every change fails once: the error names the cause, the memory is
// unchanged, and the next try works as if there had been no failure.
func TestFailingAtEveryDurableStep(t *testing.T) {
	deeds := life()
	failures := 0
	for cause, kind := range map[error]node.Kind{unix.ENOSPC: node.NoSpace, unix.EIO: node.Internal} {
		for i, d := range deeds {
			want := unnumbered(after(t, deeds[:i], d))
			for n := 0; ; n++ {
				root := fastDir(t)
				disk := faulty.New()
				s := lived(t, root, disk, deeds[:i])
				birth := s.Birth().ID
				old := dumped(t, s, birth).String()
				disk.FailAt(n, cause)
				err := d.do(s)
				at := disk.Fired()
				if at.Op == "" {
					s.Close()
					break
				}
				failures++
				if !errors.Is(err, cause) || node.KindOf(err) != kind {
					t.Errorf("%s: %v at %v surfaces as %s: %v", d.name, cause, at, node.KindOf(err), err)
				}
				if now := dumped(t, s, birth).String(); now != old && d.between == nil {
					t.Errorf("%s: it failed at %v, and the memory has changed\n%s\n%s", d.name, at, old, now)
				}
				if first := at.Op == atomicfile.Write || at.Op == atomicfile.Sync; first && d.between == nil {
					unchanged(t, d.name, root, birth, old, s)
					s = reopened(t, root)
				}
				if err := d.do(s); err != nil {
					t.Errorf("%s: the next try, after %v at %v: %v", d.name, cause, at, err)
				}
				s.Close()
				final := reopened(t, root)
				if d.name == "rebirth" {
					birth = ""
				}
				if got := unnumbered(dumped(t, final, birth)); got != want {
					t.Errorf("%s: after %v at %v and another try:\n%s\nwant\n%s", d.name, cause, at, got, want)
				}
				final.Close()
			}
		}
	}
	t.Logf("%d failures", failures)
	if failures < 2*21*7 {
		t.Errorf("only %d failures: the steps aren't seen", failures)
	}
}

// unchanged checks a restart's state right after a failed deed.
func unchanged(t *testing.T, name, root, birth, old string, s *store.FSStore) {
	t.Helper()
	s.Close()
	again := reopened(t, root)
	defer again.Close()
	if now := dumped(t, again, birth).String(); now != old {
		t.Errorf("%s: it failed, and the disk has changed\n%s\n%s", name, old, now)
	}
}

// unnumbered is a dump without the results' numbers: a failed try uses one up.
func unnumbered(d dump) string {
	for i, raw := range d.Records {
		var r store.Record
		if err := json.Unmarshal(raw, &r); err != nil {
			panic(err)
		}
		if r.Result != nil {
			r.Result.Sequence = 0
		}
		b, err := json.Marshal(r)
		if err != nil {
			panic(err)
		}
		d.Records[i] = b
	}
	return d.String()
}

// The process dies at every step of opening a store: a new one, the seed's,
// and one with damage.
func TestDyingWhileOpening(t *testing.T) {
	points := 0
	for _, kind := range []string{"new", "damaged"} {
		for n := 0; ; n++ {
			root := fastDir(t)
			if kind == "damaged" {
				s := lived(t, root, faulty.New(), life()[:8])
				s.Close()
				damage(t, root, "1-1")
				damage(t, root, "meta/cursor")
			}
			disk := faulty.New()
			disk.DieAt(n)
			s, err := store.Open(store.Config{Root: root, Hook: disk.Hook, NewNode: true})
			if err == nil {
				s.Close()
			}
			if disk.Fired().Op == "" {
				break
			}
			points++
			again := reopened(t, root)
			if again.Birth().ID == "" {
				t.Errorf("%s: no birth after dying at %v", kind, disk.Fired())
			}
			if kind == "damaged" {
				if q := again.Quarantined(); len(q) != 2 {
					t.Errorf("died at %v: set aside is %v, want 1-1 and the cursor", disk.Fired(), q)
				}
				if _, err := again.Record("2-1"); err != nil {
					t.Errorf("died at %v: %v", disk.Fired(), err)
				}
			}
			again.Close()
		}
	}
	t.Logf("%d deaths", points)
	if points < 30 {
		t.Errorf("only %d deaths: the steps aren't seen", points)
	}
}
