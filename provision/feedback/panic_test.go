package feedback_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/feedback"
	"github.com/croft-edge/croft/provision/store"
)

// syncedLog is a log that is safe to read while it is written.
type syncedLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *syncedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *syncedLog) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}

// mine counts the panics still to come.
type mine struct {
	mu   sync.Mutex
	left int
}

func (m *mine) step() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left > 0 {
		m.left--
		panic("stepped on a mine")
	}
}

// mined are the needs of feedback, each with its mine.
type mined struct {
	store                                *store.FSStore
	explorer                             explorer
	list, acknowledge, signature, sender mine
}

func (m *mined) Undelivered() ([]store.Record, error) {
	m.list.step()
	return m.store.Undelivered()
}

func (m *mined) Acknowledge(receipts ...store.Receipt) error {
	m.acknowledge.step()
	return m.store.Acknowledge(receipts...)
}

func (m *mined) Sign(_ context.Context, message []byte) ([]byte, error) {
	m.signature.step()
	return ed25519.Sign(nodeKey(), message), nil
}

func (m *mined) PutResult(ctx context.Context, r *workload.Result) error {
	m.sender.step()
	return m.explorer.PutResult(ctx, r)
}

// A panic of the sender ended the process. Whichever part panics, it is logged
// with its stack, and the results are delivered later.
func TestPanicsDelayResults(t *testing.T) {
	for name, of := range map[string]func(m *mined) *mine{
		"looking":       func(m *mined) *mine { return &m.list },
		"acknowledging": func(m *mined) *mine { return &m.acknowledge },
		"signing":       func(m *mined) *mine { return &m.signature },
		"sending":       func(m *mined) *mine { return &m.sender },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, log := newRig(t, feedback.Config{}), &syncedLog{}
				m := &mined{store: r.store}
				of(m).left = 5
				var err error
				if r.Feedback, err = feedback.New(feedback.Config{Outbox: m, Signer: m, Sender: m, Log: zerolog.New(log)}); err != nil {
					t.Fatal(err)
				}
				for i := range 3 {
					r.owe(t, fmt.Sprintf("%d-1", i+1))
				}
				r.running(t, func() {
					time.Sleep(5 * time.Minute)
					if left := r.owed(t); left != 0 {
						t.Errorf("%d results are still owed", left)
					}
					r.owe(t, "4-1")
					synctest.Wait()
					if left := r.owed(t); left != 0 || r.Away() != nil {
						t.Errorf("a later result isn't delivered: %d owed, away: %v", left, r.Away())
					}
				})
				if n := log.count("panic_test.go"); n < 5 || log.count(`"message":"panic"`) != 5 {
					t.Errorf("logged %d panics of 5, %d lines of stacks", log.count(`"message":"panic"`), n)
				}
			})
		})
	}
}

// A result that makes the sender panic each time doesn't block any other.
func TestAResultThatPanicsBlocksNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, feedback.Config{})
		r.explorer.set(func(_ context.Context, res *workload.Result) error {
			if res.ID == "1-1" {
				panic("boom")
			}
			return nil
		})
		r.running(t, func() {
			for i := range 5 {
				r.owe(t, fmt.Sprintf("%d-1", i+1))
			}
			time.Sleep(time.Minute)
			if r.owed(t) != 1 || len(r.Problems()) != 1 || r.Problems()[0].ID != "1-1" {
				t.Errorf("%d are owed, problems %+v", r.owed(t), r.Problems())
			}
			r.explorer.set(nil)
			time.Sleep(2 * time.Minute)
			if r.owed(t) != 0 {
				t.Error("it isn't delivered after the sender is well again")
			}
		})
	})
}

// slowList is an outbox whose queries take time, as with thousands of results.
type slowList struct {
	*store.FSStore
	takes time.Duration
	mu    sync.Mutex
	looks int
}

func (s *slowList) Undelivered() ([]store.Record, error) {
	time.Sleep(s.takes)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	return s.FSStore.Undelivered()
}

func (s *slowList) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.looks
}

// However often feedback is kicked, its queries take at most a tenth of the time;
// a result that comes alone goes out at once.
func TestManyKicksCostLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, feedback.Config{})
		list := &slowList{FSStore: r.store, takes: 20 * time.Millisecond}
		var err error
		if r.Feedback, err = feedback.New(feedback.Config{Outbox: list, Signer: r.signer, Sender: r.explorer}); err != nil {
			t.Fatal(err)
		}
		r.running(t, func() {
			time.Sleep(time.Minute)
			alone := time.Now()
			r.owe(t, "1-1")
			for r.explorer.ids() == "" {
				time.Sleep(time.Millisecond)
			}
			if took := time.Since(alone); took > list.takes+2*time.Millisecond {
				t.Errorf("a result that came alone waited %s, a look takes %s", took, list.takes)
			}
			before := list.count()
			for range 10_000 {
				r.Kick()
				time.Sleep(time.Millisecond)
			}
			if looks := list.count() - before; looks < 40 || looks > 52 {
				t.Errorf("%d looks of %s in ten seconds of kicks, want about 50", looks, list.takes)
			}
			r.owe(t, "2-1")
			time.Sleep(time.Second)
			if r.owed(t) != 0 {
				t.Error("what was kicked for while it rested isn't delivered")
			}
		})
	})
}
