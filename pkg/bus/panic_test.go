package bus

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/threefoldtech/zbus"

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

// careless is a contract whose methods fail in ways that nobody intends.
type careless interface {
	TypedNil() (string, error)
	BadError() error
	End() (string, error)
	Echo(text string) (string, error)
}

// textlessError is an error; a nil one has no text, and panics.
type textlessError struct{ text string }

func (e *textlessError) Error() string { return e.text }

type carelessImpl struct{}

func (carelessImpl) TypedNil() (string, error) {
	var err *textlessError
	return "done", err
}

func (carelessImpl) BadError() error { return panickingError{} }

func (carelessImpl) End() (string, error) {
	runtime.Goexit()
	return "", nil
}

func (carelessImpl) Echo(text string) (string, error) { return text, nil }

// panickingError panics where its kind is asked for.
type panickingError struct{}

func (panickingError) Error() string { return "an error" }
func (panickingError) As(any) bool   { panic("no kind") }

// carelessServer serves what fails badly.
func carelessServer(t *testing.T, b Bus) *Server {
	t.Helper()
	server, err := NewServer(b, "careless", Options{Workers: 2})
	if err == nil {
		err = Register[careless](server, Object("careless", "1.0"), carelessImpl{})
	}
	if err == nil {
		err = Refuse(server, Object("refused", "1.0"), func() error { panic("no reason") })
	}
	if err == nil {
		err = Refuse(server, Object("nil", "1.0"), func() error {
			var err *textlessError
			return err
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// A method's error, a refusal, and a goroutine's end can fail beside the method's own run: the caller learns that at once, and the worker goes on.
func TestACallThatFailsBadlyIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewInProcess()
		defer b.Close()
		server := carelessServer(t, b)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- server.Run(ctx) }()
		client := NewClient(b, Options{Timeout: time.Minute})
		bad := []struct{ object, method string }{{"careless", "TypedNil"}, {"careless", "BadError"}, {"careless", "End"}, {"refused", "Echo"}, {"nil", "Echo"}}
		const rounds = 3 // more than there are workers
		for range rounds {
			for _, c := range bad {
				began := time.Now()
				rep, err := client.RequestContext(t.Context(), "careless", Object(c.object, "1.0"), c.method)
				if err == nil {
					var text string
					err = rep.Unmarshal(&zbus.Loader{&text})
				}
				if node.KindOf(err) != node.Internal || time.Since(began) != 0 {
					t.Errorf("%s.%s: got %v after %s, want an Internal error at once", c.object, c.method, err, time.Since(began))
				}
			}
		}
		if _, err := client.RequestContext(t.Context(), "careless", Object("careless", "1.0"), "Echo", "hello"); err != nil {
			t.Errorf("after these: %v", err)
		}
		synctest.Wait()
		if got := server.Stats().Panicked; got != rounds*uint64(len(bad)) {
			t.Errorf("%d are counted as panicked, want %d", got, rounds*len(bad))
		}
		for _, one := range server.Status().Workers {
			if one.State != zbus.WorkerFree {
				t.Errorf("a worker is left as %+v", one)
			}
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
