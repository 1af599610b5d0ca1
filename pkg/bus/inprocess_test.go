package bus

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/croft-edge/croft/pkg/bus/transport"
	"github.com/croft-edge/croft/pkg/node"
)

func put(t *testing.T, b *InProcess, key, frame string, ttl time.Duration) {
	t.Helper()
	if sent, err := b.Push(t.Context(), key, []byte(frame), ttl); !sent || err != nil {
		t.Fatalf("push to %s: %t, %v", key, sent, err)
	}
}

func pop(t *testing.T, p transport.Puller, limit time.Duration) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	frame, err := p.Next(ctx)
	if err != nil && !ended(err) {
		t.Fatal(err)
	}
	return string(frame)
}

func TestQueueExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewInProcess()
		defer b.Close()
		put(t, b, "a", "1", time.Minute)
		time.Sleep(50 * time.Second)
		// Each frame renews its queue's lifetime, as redis' EXPIRE does.
		put(t, b, "a", "2", time.Minute)
		time.Sleep(50 * time.Second)
		p := b.Pull("a")
		if got := pop(t, p, time.Second) + pop(t, p, time.Second); got != "12" {
			t.Errorf("got %q", got)
		}
		put(t, b, "a", "3", time.Minute)
		put(t, b, "b", "4", time.Hour)
		time.Sleep(61 * time.Second)
		if got := pop(t, p, time.Second); got != "" {
			t.Errorf("after its time came %q", got)
		}
		put(t, b, "c", "5", time.Second)
		time.Sleep(2 * time.Second)
		put(t, b, "d", "6", time.Second)
		if len(b.queues) != 2 || b.bytes != 2 {
			t.Errorf("%d queues with %d bytes are left, want 2 with 2", len(b.queues), b.bytes)
		}
	})
}

func TestQueuesAreBounded(t *testing.T) {
	b := NewInProcess()
	defer b.Close()
	refused := func(key string, frame []byte, want string) {
		t.Helper()
		sent, err := b.Push(t.Context(), key, frame, time.Minute)
		if sent || node.KindOf(err) != node.Transient || !strings.Contains(err.Error(), want) {
			t.Errorf("push to %s: %t, %v; want %q", key, sent, err, want)
		}
	}
	for range maxQueued {
		put(t, b, "full", "x", time.Minute)
	}
	refused("full", []byte("x"), "1024 frames wait already")
	for i := range maxQueues - 1 {
		put(t, b, fmt.Sprint(i), "x", time.Minute)
	}
	refused("one more", []byte("x"), "there are 4096 already")

	b2 := NewInProcess()
	defer b2.Close()
	large := make([]byte, MaxFrame)
	for i := range maxQueueBytes / MaxFrame {
		put(t, b2, fmt.Sprint(i), string(large), time.Minute)
	}
	refused2, err := b2.Push(t.Context(), "x", []byte("x"), time.Minute)
	if refused2 || node.KindOf(err) != node.Transient {
		t.Errorf("more than the bytes that are allowed: %t, %v", refused2, err)
	}
	pop(t, b2.Pull("0"), time.Second)
	put(t, b2, "x", "x", time.Minute)
}

func TestBusyQueueDoesNotStarveTheOthers(t *testing.T) {
	b := NewInProcess()
	defer b.Close()
	for range 100 {
		put(t, b, "busy", "b", time.Minute)
	}
	put(t, b, "quiet", "q", time.Minute)
	p := b.Pull("busy", "quiet")
	for i := range 4 {
		if pop(t, p, time.Second) == "q" {
			return
		}
		if i == 3 {
			t.Error("the quiet queue waits")
		}
	}
}

func TestPullersTakeTurnsAndLoseNothing(t *testing.T) {
	b := NewInProcess()
	var mu sync.Mutex
	seen := map[string]int{}
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for range 8 {
		wg.Go(func() {
			p := b.Pull("a", "b")
			for ctx.Err() == nil {
				// Many waits are cancelled in the moment when a frame comes.
				turn, stop := context.WithTimeout(ctx, 50*time.Microsecond)
				frame, err := p.Next(turn)
				stop()
				if err == nil {
					mu.Lock()
					seen[string(frame)]++
					mu.Unlock()
				}
			}
		})
	}
	const all = 2000
	for i := range all {
		put(t, b, []string{"a", "b"}[i%2], uuid.NewString(), time.Minute)
		if i%50 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		mu.Lock()
		n := len(seen)
		mu.Unlock()
		if n == all {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d frames came", n, all)
		}
		time.Sleep(time.Millisecond)
	}
	cancel()
	wg.Wait()
	for frame, n := range seen {
		if n != 1 {
			t.Errorf("%s came %d times", frame, n)
		}
	}
	if b.waiters != 0 || len(b.waiting) != 0 || len(b.queues) != 0 || b.bytes != 0 {
		t.Errorf("left: %d waiters, %d keys, %d queues, %d bytes", b.waiters, len(b.waiting), len(b.queues), b.bytes)
	}
	_ = b.Close()
}

func TestClosedInProcessBusEndsEveryWait(t *testing.T) {
	b := NewInProcess()
	events, err := b.Subscribe(t.Context(), "c")
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() {
		_, err := b.Pull("a").Next(t.Context())
		got <- err
	}()
	for {
		b.mu.Lock()
		n := b.waiters
		b.mu.Unlock()
		if n == 1 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	_ = b.Close()
	if err := <-got; node.KindOf(err) != node.Transient {
		t.Errorf("a transport.Puller ended with %v", err)
	}
	if _, open := <-events; open {
		t.Error("the stream goes on")
	}
	if _, err := b.Push(t.Context(), "a", nil, time.Second); node.KindOf(err) != node.Transient {
		t.Errorf("push: %v", err)
	}
	if err := b.Publish(t.Context(), "a", nil); node.KindOf(err) != node.Transient {
		t.Errorf("publish: %v", err)
	}
	if _, err := b.Subscribe(t.Context(), "a"); node.KindOf(err) != node.Transient {
		t.Errorf("subscribe: %v", err)
	}
	if _, err := b.Pull("a").Next(t.Context()); node.KindOf(err) != node.Transient {
		t.Errorf("pull: %v", err)
	}
}

// Closing took pullers off the list that it iterated, and dereferenced nil
// where two of them waited for one key.
func TestCloseEndsAllPullersOfOneKey(t *testing.T) {
	b := NewInProcess()
	const pullers = 8
	done := make(chan error, pullers)
	for i := range pullers {
		p := b.Pull("a", fmt.Sprint(i), "a", fmt.Sprint(i%2))
		go func() {
			_, err := p.Next(t.Context())
			done <- err
		}()
	}
	for waiting := 0; waiting < pullers; {
		b.mu.Lock()
		waiting = b.waiters
		b.mu.Unlock()
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	for range pullers {
		if err := <-done; node.KindOf(err) != node.Transient {
			t.Errorf("a transport.Puller ended with %v, want a Transient error", err)
		}
	}
	if err := b.Close(); err != nil || b.waiters != 0 || len(b.waiting) != 0 {
		t.Errorf("closed again: %v; %d pullers wait on %d keys", err, b.waiters, len(b.waiting))
	}
}

func TestReadersOfAStreamShareNothing(t *testing.T) {
	b := NewInProcess()
	defer b.Close()
	one, err := b.Subscribe(t.Context(), "c")
	if err != nil {
		t.Fatal(err)
	}
	two, err := b.Subscribe(t.Context(), "c")
	if err != nil {
		t.Fatal(err)
	}
	frame := []byte("\xa3abc")
	if err := b.Publish(t.Context(), "c", frame); err != nil {
		t.Fatal(err)
	}
	first := <-one
	first[1], frame[2] = 'X', 'Y'
	if got := <-two; !bytes.Equal(got, []byte("\xa3abc")) {
		t.Errorf("got %q", got)
	}
}

func TestDeadlineIsOfThisBootOnly(t *testing.T) {
	boot := bootID()
	if len(boot) != 36 {
		t.Fatalf("the boot's ID is %q", boot)
	}
	now := monotonicNow()
	for _, test := range []struct {
		name  string
		req   request
		boot  string
		known bool
	}{
		{"later", request{Boot: boot, Deadline: now + int64(time.Minute)}, boot, true},
		{"before", request{Boot: boot, Deadline: now - int64(time.Minute)}, boot, true},
		{"of another boot", request{Boot: uuid.NewString(), Deadline: 1}, boot, false},
		{"of no boot", request{Deadline: 1}, boot, false},
		{"none", request{Boot: boot}, boot, false},
		{"negative", request{Boot: boot, Deadline: -1}, boot, false},
		{"the boot can't be told", request{Deadline: 1}, "", false},
	} {
		left, known := test.req.left(test.boot)
		if known != test.known || (known && (left > 0) != (test.name == "later")) {
			t.Errorf("%s: %s left, known %t", test.name, left, known)
		}
	}
}
