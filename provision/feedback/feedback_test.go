package feedback_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/feedback"
	"github.com/croft-edge/croft/provision/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func nodeKey() ed25519.PrivateKey { return ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)) }

func nodeID() string { return sign.ID(nodeKey().Public().(ed25519.PublicKey)) }

// signer signs with the node's key, or fails when a test says so.
type signer struct {
	mu   sync.Mutex
	fail error
}

func (s *signer) Sign(_ context.Context, message []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return nil, s.fail
	}
	return ed25519.Sign(nodeKey(), message), nil
}

func (s *signer) set(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

// explorer accepts or refuses results as a test says.
type explorer struct {
	mu       sync.Mutex
	answer   func(ctx context.Context, r *workload.Result) error
	got      []*workload.Result
	attempts []time.Time
}

func (e *explorer) PutResult(ctx context.Context, r *workload.Result) error {
	e.mu.Lock()
	answer := e.answer
	e.attempts = append(e.attempts, time.Now())
	e.mu.Unlock()
	if answer != nil {
		if err := answer(ctx, r); err != nil {
			return err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.got = append(e.got, r)
	return nil
}

func (e *explorer) set(answer func(ctx context.Context, r *workload.Result) error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer = answer
}

func (e *explorer) ids() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []string
	for _, r := range e.got {
		out = append(out, r.ID)
	}
	return strings.Join(out, " ")
}

func (e *explorer) tries() []time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.attempts)
}

// rig is feedback with a real store.
type rig struct {
	*feedback.Feedback
	store    *store.FSStore
	signer   *signer
	explorer *explorer
}

func newRig(t *testing.T, c feedback.Config) *rig {
	t.Helper()
	s, err := store.NewFSStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	r := &rig{store: s, signer: &signer{}, explorer: &explorer{}}
	c.Outbox, c.Signer = s, r.signer
	if c.Sender == nil {
		c.Sender = r.explorer
	}
	if r.Feedback, err = feedback.New(c); err != nil {
		t.Fatal(err)
	}
	return r
}

// owe finishes a reservation, and kicks.
func (r *rig) owe(t *testing.T, id string) store.Record {
	t.Helper()
	return r.oweAs(t, nodeKey(), id)
}

// oweAs is owe for the user with that key.
func (r *rig) oweAs(t *testing.T, user ed25519.PrivateKey, id string) store.Record {
	t.Helper()
	res := &workload.Reservation{
		ID: id, NodeID: nodeID(), Type: workload.TypeVolume, Data: []byte("{}"), Created: time.Now().UTC(), Duration: time.Hour,
	}
	if err := res.Sign(user); err != nil {
		t.Fatal(err)
	}
	h, err := res.Hash()
	if err != nil {
		t.Fatal(err)
	}
	recs, err := r.store.Write(store.Record{
		Reservation: res, Hash: h, Phase: store.Deployed,
		Result: &workload.Result{State: workload.StateOK, Created: time.Now().UTC(), Data: []byte(`{"volume_id":"` + id + `"}`)},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Kick()
	return recs[0]
}

func (r *rig) owed(t *testing.T) int {
	t.Helper()
	left, err := r.store.Undelivered()
	if err != nil {
		t.Fatal(err)
	}
	return len(left)
}

// running runs f beside feedback, in a bubble of its own time, and returns how long stopping took.
func (r *rig) running(t *testing.T, f func()) time.Duration {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	synctest.Wait()
	f()
	stop := time.Now()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	return time.Since(stop)
}

func away(context.Context, *workload.Result) error {
	return node.Errorf(node.Transient, "cannot send: the explorer is away")
}

// Finished results are signed, sent in order and acknowledged; nothing is sent twice.
func TestDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, feedback.Config{})
		before := r.owe(t, "1-1")
		took := r.running(t, func() {
			synctest.Wait()
			r.owe(t, "3-1")
			synctest.Wait()
			r.owe(t, "2-1")
			synctest.Wait()
			time.Sleep(time.Hour)
		})
		if got := r.explorer.ids(); got != "1-1 3-1 2-1" || r.owed(t) != 0 {
			t.Errorf("sent %s, %d are owed", got, r.owed(t))
		}
		if took != 0 {
			t.Errorf("stopping with nothing owed took %s", took)
		}
		for _, res := range r.explorer.got {
			rec, err := r.store.Record(res.ID)
			if err != nil {
				t.Fatal(err)
			}
			if err := workload.VerifyResult(res, nodeID(), rec.Hash); err != nil {
				t.Errorf("%s: %v", res.ID, err)
			}
		}
		if got := r.explorer.got[0]; got.Sequence != before.Result.Sequence || got.Birth != r.store.Birth().ID {
			t.Errorf("sent %+v", got)
		}
	})
}

// The explorer is away for hours: nothing is lost, the attempts spread out up
// to the longest pause, and all arrive soon after it is back, in order.
func TestExplorerAwayForHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, feedback.Config{})
		r.explorer.set(away)
		r.running(t, func() {
			for i := range 20 {
				r.owe(t, fmt.Sprintf("%d-1", i+1))
			}
			time.Sleep(6 * time.Hour)
			if r.owed(t) != 20 || r.Away() == nil {
				t.Errorf("%d are owed, away: %v", r.owed(t), r.Away())
			}
			tries := r.explorer.tries()
			if n := len(tries); n < 6*60 || n > 6*60*2*20 {
				t.Errorf("%d attempts in six hours", n)
			}
			r.explorer.set(nil)
			time.Sleep(2 * time.Minute)
			if r.owed(t) != 0 || r.Away() != nil || len(r.Problems()) != 0 {
				t.Errorf("%d are owed, away: %v, problems %v", r.owed(t), r.Away(), r.Problems())
			}
		})
	})
}

// Kicks don't raise the rate of attempts while the explorer is away.
func TestKicksDoNotHurry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, feedback.Config{Pause: time.Minute, MaxPause: time.Minute})
		r.explorer.set(away)
		r.owe(t, "1-1")
		r.running(t, func() {
			for range 1000 {
				r.Kick()
				time.Sleep(10 * time.Millisecond)
			}
			if n := len(r.explorer.tries()); n > 2 {
				t.Errorf("%d attempts in ten seconds of kicks", n)
			}
			r.explorer.set(nil)
			time.Sleep(2 * time.Minute)
		})
	})
}

// Results that the explorer refuses for good, or fails on, don't block others;
// they are retried slowly, and their cause is visible.
func TestOneBadResultBlocksNoOther(t *testing.T) {
	for name, tt := range map[string]struct {
		err     error
		refused bool
	}{
		"refused": {node.Errorf(node.Invalid, "cannot accept result: no"), true},
		"gone":    {node.Errorf(node.NotExist, "cannot accept result: who?"), true},
		"chokes":  {node.Errorf(node.Transient, "cannot accept result: 500"), false},
		"no kind": {errors.New("broken"), false},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, feedback.Config{})
			bad := map[string]bool{"1-1": true, "2-1": true, "3-1": true}
			r.explorer.set(func(_ context.Context, res *workload.Result) error {
				if bad[res.ID] {
					return tt.err
				}
				return nil
			})
			for i := range 10 {
				r.owe(t, fmt.Sprintf("%d-1", i+1))
			}
			r.running(t, func() {
				time.Sleep(10 * time.Second)
				if r.owed(t) != 3 {
					t.Errorf("%s: %d are owed, want the three bad ones", name, r.owed(t))
				}
				problems := r.Problems()
				if len(problems) != 3 || problems[0].ID != "1-1" || problems[0].Cause != tt.err.Error() || problems[0].Refused != tt.refused {
					t.Errorf("%s: problems %+v", name, problems)
				}
				tries := len(r.explorer.tries())
				time.Sleep(time.Hour)
				tries = len(r.explorer.tries()) - tries
				if tt.refused && (tries < 3*5 || tries > 3*13) || !tt.refused && (tries < 60 || tries > 3*130) {
					t.Errorf("%s: %d attempts in an hour with three bad results", name, tries)
				}
				r.owe(t, "11-1")
				time.Sleep(time.Second * 70)
				if r.owed(t) != 3 {
					t.Errorf("%s: a new result is blocked", name)
				}
				r.explorer.set(nil)
				time.Sleep(15 * time.Minute)
				if r.owed(t) != 0 || len(r.Problems()) != 0 {
					t.Errorf("%s: %d are owed, problems %v", name, r.owed(t), r.Problems())
				}
			})
		})
	}
}

// An explorer that never answers costs each attempt its time, no more; so does a signer that fails.
func TestHangsAndSigners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, feedback.Config{Timeout: 10 * time.Second})
		r.explorer.set(func(ctx context.Context, _ *workload.Result) error {
			<-ctx.Done()
			return ctx.Err()
		})
		r.signer.set(errors.New("the identity module is away"))
		r.owe(t, "1-1")
		r.running(t, func() {
			time.Sleep(time.Minute)
			if n := len(r.explorer.tries()); n != 0 {
				t.Errorf("%d results were sent unsigned", n)
			}
			r.signer.set(nil)
			time.Sleep(2 * time.Minute)
			if n := len(r.explorer.tries()); n < 1 || n > 12 {
				t.Errorf("%d attempts in two minutes", n)
			}
			r.explorer.set(nil)
			time.Sleep(2 * time.Minute)
			if r.owed(t) != 0 {
				t.Error("still owed")
			}
		})
	})
}

// On stop feedback tries once more, until its deadline, whatever it was waiting for.
func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, feedback.Config{Grace: 5 * time.Second})
		r.explorer.set(away)
		r.owe(t, "1-1")
		r.owe(t, "2-1")
		took := r.running(t, func() {
			time.Sleep(time.Hour)
			r.explorer.set(nil) // back just before the end
		})
		if r.owed(t) != 0 || took > 5*time.Second {
			t.Errorf("%d are owed after a shutdown of %s", r.owed(t), took)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, feedback.Config{Grace: 5 * time.Second})
		r.explorer.set(func(ctx context.Context, _ *workload.Result) error {
			<-ctx.Done()
			return ctx.Err()
		})
		r.owe(t, "1-1")
		took := r.running(t, func() { time.Sleep(3 * time.Second) })
		if r.owed(t) != 1 || took < 4*time.Second || took > 6*time.Second {
			t.Errorf("%d are owed after a shutdown of %s, want 1 after 5 s", r.owed(t), took)
		}
	})
}

// A newer answer replaces the older one; the acknowledgement of the older doesn't count for it.
func TestAnswerIsReplacedWhileItIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, feedback.Config{})
		first := r.owe(t, "1-1")
		r.explorer.set(func(_ context.Context, res *workload.Result) error {
			if res.Sequence != first.Result.Sequence {
				return nil
			}
			newer := first.Clone()
			newer.Phase, newer.Result = store.Ended, &workload.Result{State: workload.StateDeleted, Created: time.Now()}
			_, err := r.store.Write(newer)
			r.Kick()
			return err
		})
		r.running(t, func() { time.Sleep(time.Second) })
		if got := r.explorer.got; len(got) != 2 || got[1].State != workload.StateDeleted || r.owed(t) != 0 {
			t.Errorf("sent %s, %d are owed", r.explorer.ids(), r.owed(t))
		}
	})
}

// Signing again gives the same bytes: a lost acknowledgement costs nothing.
func TestSameBytesTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, feedback.Config{})
		var sent [][]byte
		r.explorer.set(func(_ context.Context, res *workload.Result) error {
			sent = append(sent, res.Signature)
			if len(sent) < 3 {
				return node.Errorf(node.Transient, "cannot send: the answer was lost")
			}
			return nil
		})
		r.owe(t, "1-1")
		r.running(t, func() { time.Sleep(time.Minute) })
		if len(sent) != 3 || string(sent[0]) != string(sent[1]) || string(sent[1]) != string(sent[2]) {
			t.Errorf("sent %x", sent)
		}
	})
}

func TestConfig(t *testing.T) {
	if _, err := feedback.New(feedback.Config{}); err == nil {
		t.Error("an empty config is accepted")
	}
	s, err := store.NewFSStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := feedback.New(feedback.Config{Outbox: s, Signer: &signer{}, Sender: &explorer{}, Pause: -1}); err == nil {
		t.Error("a negative time is accepted")
	}
}
