package bus

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/croft-edge/croft/pkg/bus/transport"
	"github.com/croft-edge/croft/pkg/node"
)

// minedBus panics at chosen calls, a few times.
type minedBus struct {
	*InProcess
	mu sync.Mutex
	// replies and pulls count the remaining panics.
	replies, pulls int
}

func (b *minedBus) step(left *int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if *left > 0 {
		*left--
		panic("stepped on a mine")
	}
}

func (b *minedBus) Push(ctx context.Context, key string, frame []byte, ttl time.Duration) (bool, error) {
	if !strings.Contains(key, ".") { // a reply's key
		b.step(&b.replies)
	}
	return b.InProcess.Push(ctx, key, frame, ttl)
}

func (b *minedBus) Pull(keys ...string) transport.Puller {
	if !strings.Contains(keys[0], ".") {
		b.step(&b.pulls)
	}
	return b.InProcess.Pull(keys...)
}

type echo interface {
	Echo(text string) (string, error)
}

type echoes struct{}

func (echoes) Echo(text string) (string, error) { return text, nil }

// A panic beside a method ended the process: of a worker that answers, of a
// client's reader of replies. Both go on; the caller learns that the outcome
// is unknown.
func TestBusGoesOnAfterPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const panics = 10 // more than there are workers
		b := &minedBus{InProcess: NewInProcess(), replies: panics, pulls: 2}
		defer b.Close()
		server, err := NewServer(b, "mined", Options{})
		if err == nil {
			err = Register[echo](server, Object("echo", "1.0"), echoes{})
		}
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- server.Run(ctx) }()
		client := NewClient(b, Options{Timeout: time.Second})
		for range panics {
			if _, err := client.RequestContext(t.Context(), "mined", Object("echo", "1.0"), "Echo", "hello"); node.KindOf(err) != node.Unknown {
				t.Errorf("got %v, want an Unknown error", err)
			}
		}
		if _, err := client.RequestContext(t.Context(), "mined", Object("echo", "1.0"), "Echo", "hello"); err != nil {
			t.Errorf("after the panics: %v", err)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
