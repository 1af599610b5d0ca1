package feedback_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/feedback"
	"github.com/croft-edge/croft/provision/store"
)

// ledger is a store that counts its acknowledging writes, and fails them when a
// test says so.
type ledger struct {
	*store.FSStore
	mu     sync.Mutex
	writes []int
	fail   error
}

func (l *ledger) Acknowledge(receipts ...store.Receipt) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		return l.fail
	}
	l.writes = append(l.writes, len(receipts))
	return l.FSStore.Acknowledge(receipts...)
}

func (l *ledger) set(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail = err
}

// counted is a rig with a ledger.
func counted(t *testing.T) (*rig, *ledger) {
	t.Helper()
	r := newRig(t, feedback.Config{})
	l := &ledger{FSStore: r.store}
	f, err := feedback.New(feedback.Config{Outbox: l, Signer: r.signer, Sender: r.explorer})
	if err != nil {
		t.Fatal(err)
	}
	r.Feedback = f
	return r, l
}

// The acknowledgements of one pass are written together, many results in few writes.
func TestAcknowledgedInOneWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, l := counted(t)
		for i := range 70 {
			r.owe(t, fmt.Sprintf("%d-1", i+1))
		}
		r.running(t, func() { time.Sleep(time.Minute) })
		if got := fmt.Sprint(l.writes); got != "[64 6]" || r.owed(t) != 0 || len(r.explorer.got) != 70 {
			t.Errorf("70 results were sent %d times and written as %s, %d are owed", len(r.explorer.got), got, r.owed(t))
		}
	})
}

// A slow explorer doesn't delay the write of acknowledgements.
func TestASlowExplorerDelaysNoWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, l := counted(t)
		r.explorer.set(func(context.Context, *workload.Result) error {
			time.Sleep(600 * time.Millisecond)
			return nil
		})
		for i := range 6 {
			r.owe(t, fmt.Sprintf("%d-1", i+1))
		}
		r.running(t, func() { time.Sleep(time.Minute) })
		if got := fmt.Sprint(l.writes); got != "[3 3]" || r.owed(t) != 0 {
			t.Errorf("6 results in 3.6 s were written as %s, %d are owed", got, r.owed(t))
		}
	})
}

// While writes fail, little is sent in vain, and nothing is lost.
func TestAcknowledgementsThatCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, l := counted(t)
		l.set(node.Errorf(node.NoSpace, "cannot write: the disk is full"))
		for i := range 200 {
			r.owe(t, fmt.Sprintf("%d-1", i+1))
		}
		r.running(t, func() {
			time.Sleep(30 * time.Minute)
			if n := len(r.explorer.tries()); n < 64 || n > 64*130 || r.owed(t) != 200 || len(r.Problems()) == 0 {
				t.Errorf("%d results were sent in half an hour, %d are owed, %d problems", n, r.owed(t), len(r.Problems()))
			}
			l.set(nil)
			time.Sleep(2 * time.Minute)
			if r.owed(t) != 0 || len(r.Problems()) != 0 {
				t.Errorf("%d are owed, problems %v", r.owed(t), r.Problems())
			}
		})
	})
}

// One user's thousand results don't delay another's two: users take turns, and results
// that come during a pass have their turn in the next.
func TestUsersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := counted(t)
		r.explorer.set(func(context.Context, *workload.Result) error {
			time.Sleep(20 * time.Millisecond)
			return nil
		})
		for i := range 200 {
			r.oweAs(t, nodeKey(), fmt.Sprintf("%d-1", i+1))
		}
		other, err := sign.Generate()
		if err != nil {
			t.Fatal(err)
		}
		r.oweAs(t, other.Private(), "300-1")
		r.oweAs(t, other.Private(), "301-1")
		r.running(t, func() {
			time.Sleep(300 * time.Millisecond)
			got := strings.Fields(r.explorer.ids())
			if len(got) < 4 || !slices.Equal(got[:4], []string{"1-1", "300-1", "2-1", "301-1"}) {
				t.Errorf("sent were %v", got)
			}
			r.oweAs(t, other.Private(), "302-1")
			time.Sleep(1500 * time.Millisecond)
			if n := len(strings.Fields(r.explorer.ids())); n == 203 || !slices.Contains(strings.Fields(r.explorer.ids()), "302-1") {
				t.Errorf("after 1.8 s %d were sent, 302-1 isn't among them", n)
			}
			time.Sleep(time.Minute)
			if r.owed(t) != 0 || len(strings.Fields(r.explorer.ids())) != 203 {
				t.Errorf("%d are owed, %d were sent", r.owed(t), len(strings.Fields(r.explorer.ids())))
			}
		})
	})
}

// A pass in which one result fails among sent ones is followed by the next at once: the
// explorer isn't away.
func TestOneFailureAtTheEndOfAPassKeepsNothingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := counted(t)
		r.explorer.set(func(_ context.Context, result *workload.Result) error {
			time.Sleep(100 * time.Millisecond)
			if result.ID == "10-1" {
				time.Sleep(200 * time.Millisecond)
				return node.Errorf(node.Transient, "the connection was reset")
			}
			return nil
		})
		for i := range 20 {
			r.oweAs(t, nodeKey(), fmt.Sprintf("%d-1", i+1))
		}
		r.running(t, func() {
			time.Sleep(1350 * time.Millisecond)
			if sent := strings.Fields(r.explorer.ids()); slices.Contains(sent, "10-1") || !slices.Contains(sent, "11-1") {
				t.Errorf("after 1.35 s %v were sent, want 11-1, and 10-1 failed", sent)
			}
		})
	})
}

// The only result that the explorer didn't take isn't owed any more. Later ones are sent all
// the same.
func TestNothingIsOwedToAnExplorerThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, feedback.Config{})
		r.explorer.set(func(context.Context, *workload.Result) error { return node.Errorf(node.Transient, "down") })
		r.running(t, func() {
			rec := r.owe(t, "1-1")
			time.Sleep(2 * time.Minute)
			if err := r.store.Acknowledge(store.ReceiptFor(rec)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
			r.explorer.set(nil)
			r.owe(t, "2-1")
			time.Sleep(time.Minute)
			if got := r.explorer.ids(); got != "2-1" {
				t.Errorf("a minute later sent is %q, %d owed, away: %v", got, r.owed(t), r.Away())
			}
		})
	})
}
