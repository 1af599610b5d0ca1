package feedback_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	wire "github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/feedback"
)

// Explorers that are away, slow, never answer, answer garbage, redirect or fail,
// over real HTTP: the result stays undelivered, and arrives once they work.
func TestBadExplorers(t *testing.T) {
	for name, bad := range map[string]http.HandlerFunc{
		"fails":         func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"is overloaded": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) },
		"redirects":     func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
		"redirects away": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusTemporaryRedirect)
		},
		"hangs up": func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			conn.Close()
		},
		"answers garbage": func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			fmt.Fprint(conn, "\x00\x01 certainly not HTTP\r\n\r\n")
			conn.Close()
		},
		"never answers": func(_ http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); err != nil { // only now is a client's disconnect noticed
				return
			}
			<-r.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			var well atomic.Bool
			var failed, got atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !well.Load() {
					failed.Add(1)
					bad(w, r)
					return
				}
				if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/1-1") {
					got.Add(1)
				}
			}))
			defer server.Close()
			r := overHTTP(t, server.URL)
			r.owe(t, "1-1")
			stop := start(t, r)
			wait(t, "three attempts", func() bool { return failed.Load() >= 3 })
			if r.owed(t) != 1 || got.Load() != 0 {
				t.Errorf("%d are owed, %d arrived", r.owed(t), got.Load())
			}
			well.Store(true)
			wait(t, "the delivery", func() bool { return r.owed(t) == 0 })
			stop()
			if got.Load() != 1 {
				t.Errorf("it arrived %d times", got.Load())
			}
		})
	}
}

// An explorer that isn't there at first, and comes up later.
func TestExplorerComesUp(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	r := overHTTP(t, "http://"+address)
	r.owe(t, "1-1")
	stop := start(t, r)
	wait(t, "a failure", func() bool { return r.Away() != nil })
	if listener, err = net.Listen("tcp", address); err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{
		Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), ReadHeaderTimeout: time.Second,
	}}
	server.Start()
	defer server.Close()
	wait(t, "the delivery", func() bool { return r.owed(t) == 0 })
	stop()
}

// The published API's Feedbacker, which takes no context.
type seed struct {
	calls chan string
	hang  chan struct{}
	panic bool
}

func (s *seed) Feedback(id string, r *workload.Result) error {
	if s.panic {
		panic("a bug")
	}
	if s.hang != nil {
		<-s.hang
	}
	s.calls <- "feedback " + id + " " + r.State
	return nil
}

func (s *seed) Deleted(id string) error {
	s.calls <- "deleted " + id
	return nil
}

func TestSeedFeedbacker(t *testing.T) {
	s := &seed{calls: make(chan string, 10)}
	sender := feedback.NewSeed(s)
	for state, want := range map[workload.State]string{
		workload.StateOK: "feedback 1-1 ok", workload.StateError: "feedback 1-1 error",
		workload.StateDeleted: "deleted 1-1", workload.StateExpired: "deleted 1-1",
	} {
		if err := sender.PutResult(context.Background(), &workload.Result{ID: "1-1", State: state}); err != nil {
			t.Error(err)
		}
		if got := <-s.calls; got != want {
			t.Errorf("%s: %s, want %s", state, got, want)
		}
	}
	s.panic = true
	if err := sender.PutResult(context.Background(), &workload.Result{ID: "1-1", State: workload.StateOK}); err == nil || !strings.Contains(err.Error(), "a bug") {
		t.Errorf("a panic becomes %v", err)
	}
	s.panic, s.hang = false, make(chan struct{})
	for range 2 {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		if err := sender.PutResult(ctx, &workload.Result{ID: "1-1", State: workload.StateOK}); err == nil {
			t.Error("a call that hangs succeeds")
		}
		cancel()
	}
	close(s.hang)
	if got := <-s.calls; got != "feedback 1-1 ok" {
		t.Errorf("behind: %s", got)
	}
	if err := sender.PutResult(context.Background(), &workload.Result{ID: "2-1", State: workload.StateOK}); err != nil {
		t.Errorf("after a call that hung: %v", err)
	}
}

// overHTTP is a rig with the real client.
func overHTTP(t *testing.T, url string) *rig {
	t.Helper()
	client, err := wire.NewClient(wire.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return newRig(t, feedback.Config{Sender: client, Timeout: 100 * time.Millisecond, Pause: 5 * time.Millisecond, MaxPause: 20 * time.Millisecond, Grace: time.Second})
}

// start runs feedback until the returned function is called.
func start(t *testing.T, r *rig) func() {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	stopped := false
	stop := func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return stop
}

func wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long for %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
