package main_test

import (
	"maps"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/pkg/workload"
)

// loseStore deletes a node's store and starts the node again. Its explorer shows nothing until show.
func (l *liar) loseStore(t *testing.T, n *nodetest.Node) {
	t.Helper()
	n.Stop()
	l.hide()
	if err := os.RemoveAll(n.StateDir() + "/store"); err != nil {
		t.Fatal(err)
	}
	n.Start()
	n.WaitReady()
}

func under(id string) *workload.Reservation { return &workload.Reservation{ID: id} }

// After a lost store, an explorer gave user A's old ID to user B's new volume of
// the same size: B got A's data.
func TestReusedIDAfterStoreLossGivesNoForeignData(t *testing.T) {
	n, l := startLiar(t)
	alice, bob := newUser(t), newUser(t)
	old := volumeOf(t, alice, n, time.Hour)
	l.show("1-1", old)
	l.told("1-1", old, workload.StateOK)
	n.Leave(under("1-1"), "alice's")
	before := n.Subvolumes()
	l.loseStore(t, n)
	time.Sleep(time.Second) // later signatures are newer than the new store
	young := volumeOf(t, bob, n, time.Hour)
	l.show("1-1", young)
	if r := l.told("1-1", young, workload.StateError); !strings.Contains(r.Error, "isn't this reservation's") {
		t.Errorf("bob is told %q", r.Error)
	}
	l.show("1-1", deletedBy(t, bob, young))
	l.told("1-1", young, workload.StateDeleted)
	l.show("2-1", young) // bob's own signature again, under another ID
	if got := n.Subvolumes(); !maps.Equal(got, before) || n.Note(under("1-1")) != "alice's" {
		t.Errorf("on the node is %v, was %v", got, before)
	}
}

// After a lost store and accept-older, an explorer that swapped two volumes' IDs swapped their data:
// the user deleted the second, and the first one's data was removed.
func TestSwappedIDsOfALostStoreRemoveNothing(t *testing.T) {
	n, l := startLiar(t)
	user := newUser(t)
	first, second := volumeOf(t, user, n, time.Hour), volumeOf(t, user, n, time.Hour)
	l.show("1-1", first)
	l.show("2-1", second)
	l.told("1-1", first, workload.StateOK)
	l.told("2-1", second, workload.StateOK)
	n.Leave(under("1-1"), "first")
	n.Leave(under("2-1"), "second")
	before := n.Subvolumes()
	l.loseStore(t, n)
	n.Croftd("store", "accept-older")
	l.show("1-1", second)
	l.show("2-1", first)
	for id, r := range map[string]*workload.Reservation{"1-1": second, "2-1": first} {
		if got := l.told(id, r, workload.StateError); !strings.Contains(got.Error, "isn't this reservation's") {
			t.Errorf("of %s the user is told %q", id, got.Error)
		}
	}
	l.show("1-1", deletedBy(t, user, second))
	l.told("1-1", second, workload.StateDeleted)
	if got := n.Subvolumes(); !maps.Equal(got, before) || n.Note(under("1-1")) != "first" || n.Note(under("2-1")) != "second" {
		t.Errorf("on the node is %v, was %v", got, before)
	}
}

// The explorer's time ran ahead and was corrected: tombstones had been removed by it, and workloads
// that the user had deleted were replayed and deployed.
func TestATombstoneOutlivesTheExplorersTime(t *testing.T) {
	n, l := startLiar(t)
	user := newUser(t)
	r := volumeOf(t, user, n, time.Hour)
	l.show("1-1", r)
	l.told("1-1", r, workload.StateOK)
	l.show("1-1", deletedBy(t, user, r))
	l.told("1-1", r, workload.StateDeleted)
	l.runAhead(400 * 24 * time.Hour)
	time.Sleep(4 * time.Second)
	n.Stop()
	n.Start() // the node first hears the explorer
	n.WaitReady()
	time.Sleep(4 * time.Second)
	l.runAhead(0)
	l.show("1-1", r)
	l.show("9-1", r)
	fresh := volumeOf(t, user, n, time.Hour)
	l.show("10-1", fresh)
	l.told("10-1", fresh, workload.StateOK)
	l.told("1-1", r, workload.StateDeleted)
	if there := n.Subvolumes(); len(there) != 1 || there["10-1"] == "" {
		t.Errorf("on the node is %v, want 10-1 alone", there)
	}
}

// A renewal of a held volume was ignored: its data was removed at the next proof of the old expiry. A
// volume that arrived late is held for as long as it was late: it has expired by the explorer's time,
// but not yet by the node's own uptime.
func TestARenewalOfAHeldVolumeKeepsIt(t *testing.T) {
	n, l := startLiar(t)
	user := newUser(t)
	const late, lasts = 15 * time.Second, 25 * time.Second
	r := volumeOf(t, user, n, lasts)
	time.Sleep(late)
	l.show("1-1", r)
	l.told("1-1", r, workload.StateOK)
	n.Leave(under("1-1"), "kept")
	phase := func() string {
		s := n.Status()
		if len(s.Workloads) != 1 {
			t.Fatalf("status %+v", s)
		}
		return s.Workloads[0].Phase
	}
	l.w.Until(nodetest.Soon, "it is held", func() bool { return phase() == "held" })
	renewed := *r
	if err := renewed.SignRenewal(workload.Renewal{Expires: time.Now().Add(time.Hour)}, user.Private()); err != nil {
		t.Fatal(err)
	}
	l.show("1-1", &renewed)
	l.w.Until(nodetest.Soon, "it is back", func() bool { return phase() == "deployed" })
	time.Sleep(time.Until(r.Expires().Add(late + 5*time.Second))) // the old expiry is proven
	if got := phase(); got != "deployed" || n.Note(under("1-1")) != "kept" {
		t.Errorf("past the old end it is %s", got)
	}
}

// A record that couldn't be read at one start, and the store's birth, were treated as damaged: the node
// had lost its memory for good.
func TestARecordThatCannotBeReadIsKept(t *testing.T) {
	w, n := whole(t)
	r, other := w.Reserve(n, time.Hour), w.Reserve(n, time.Hour)
	w.Result(r, workload.StateOK)
	w.Result(other, workload.StateOK)
	n.Leave(r, "kept")
	before, birth := n.Subvolumes(), n.Status().Store.Birth
	n.Stop()
	for _, name := range []string{r.ID, "birth"} {
		path := findFile(t, n.StateDir()+"/store", name)
		// The first byte of a process's memory can't be read: EIO.
		if err := unix.Mount("/proc/self/mem", path, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
		n.Start()
		err := n.Wait(syscall.Signal(0), 20*time.Second)
		if unmounted := unix.Unmount(path, 0); unmounted != nil {
			t.Fatal(unmounted)
		}
		if exitStatus(err) <= 0 || !strings.Contains(n.Output(), name) || !strings.Contains(n.Output(), "input/output error") {
			t.Fatalf("with %s unreadable it ended with %v: %s", name, err, n.Output())
		}
	}
	n.Start()
	n.WaitReady()
	s := n.Status()
	if len(s.Store.Quarantined) != 0 || s.Store.Birth != birth || s.Counters.Volume != 2 || !maps.Equal(before, n.Subvolumes()) || n.Note(r) != "kept" {
		t.Errorf("readable again: %+v, on the node is %v", s, n.Subvolumes())
	}
	settled(w, n, []*workload.Reservation{r, other})
}
