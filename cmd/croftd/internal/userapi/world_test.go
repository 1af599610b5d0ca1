package userapi_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/croft-edge/croft/cmd/croftd/internal/userapi"
	"github.com/croft-edge/croft/cmd/croftd/internal/userapi/front"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/nodeapi"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// TestMain also runs as the door's process, which a node starts from its own program.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "door" {
		os.Exit(front.Serve())
	}
	if len(os.Args) == 2 && os.Args[1] == "agent" {
		agent()
	}
	if len(os.Args) > 2 && os.Args[1] == "hostile" {
		hostile(os.Args[2], os.Args[3:])
	}
	goleak.VerifyTestMain(m)
}

const patience = 3 * time.Minute

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// records are a fake node's records: workload 7-1 is the user's.
type records struct {
	owner string

	mu      sync.Mutex
	deleted []string
	fail    error
}

func (r *records) Owner(_ context.Context, id string) (string, error) {
	if id == "6-6" {
		panic("a defect")
	}
	if id != "7-1" {
		return "", node.Errorf(node.NotExist, "cannot find %s", id)
	}
	return r.owner, nil
}

func (r *records) Holds(user string) bool { return user == r.owner }

func (r *records) Status(_ context.Context, id string) (nodeapi.Status, error) {
	return nodeapi.Status{ID: id, Type: workload.TypeContainer, Phase: "deployed", Container: &nodeapi.Container{State: "running", Restarts: 3, LastLog: []string{"bye"}}}, nil
}

func (r *records) Events(_ context.Context, id, user string) ([]nodeapi.Event, error) {
	return []nodeapi.Event{{Kind: "Normal", Reason: "Created", Operation: "Put", Message: id + " of " + user, Count: 1}}, nil
}

func (r *records) Delete(_ context.Context, id string, d workload.Deletion) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deleted = append(r.deleted, id+" "+string(d.Signature))
	return r.fail
}

// streams is a fake container that echoes.
type streams struct {
	lines chan node.LogLine

	mu    sync.Mutex
	ended int
	began int
}

func (s *streams) Logs(ctx context.Context, _ string, o nodeapi.LogOptions, f func(node.LogLine) error) error {
	for _, text := range []string{"one", "two"}[:min(2, uint(o.Tail))] {
		if err := f(node.LogLine{At: 1, Stream: "stdout", Text: text}); err != nil {
			return err
		}
	}
	if !o.Follow {
		return nil
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case l, ok := <-s.lines:
			if !ok {
				return node.Errorf(node.NotExist, "cannot follow: the container is gone")
			}
			if err := f(l); err != nil {
				return err
			}
		}
	}
}

func (s *streams) Exec(ctx context.Context, _ string, o nodeapi.ExecOptions, streams nodeapi.ExecIO) (uint32, error) {
	s.mu.Lock()
	s.began++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended++
	}()
	switch o.Args[0] {
	case "cat":
		if _, err := io.Copy(streams.Stdout, streams.Stdin); err != nil {
			return 0, err
		}
		return 7, nil
	case "size":
		size := <-streams.Resize
		_, err := streams.Stderr.Write([]byte{byte(size.Width), byte(size.Height)})
		return 0, err
	case "hang":
		<-ctx.Done()
		return 0, ctx.Err()
	case "flood":
		for {
			if _, err := streams.Stdout.Write(make([]byte, 32<<10)); err != nil {
				return 0, err
			}
		}
	case "panic":
		panic("a defect")
	}
	return 0, node.Errorf(node.Invalid, "cannot run %s: there is no such program", o.Args[0])
}

func (s *streams) Stats(context.Context, string) (node.ContainerStats, error) {
	return node.ContainerStats{ID: "7-1", CPU: 5, Memory: 6}, nil
}

func (s *streams) started() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.began > 0
}

func (s *streams) running() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.began - s.ended
}

// world is a node's door, and its users.
type world struct {
	*testing.T
	node    sign.KeyPair
	user    sign.KeyPair
	records *records
	streams *streams
	door    *userapi.Door
	log     *logBook
}

// logBook collects the node's log.
type logBook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logBook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func newWorld(t *testing.T, change ...func(*userapi.Config)) *world {
	t.Helper()
	w := &world{T: t, node: must[sign.KeyPair](t)(sign.Generate()), user: must[sign.KeyPair](t)(sign.Generate()), log: &logBook{}}
	w.records, w.streams = &records{owner: w.user.ID()}, &streams{lines: make(chan node.LogLine)}
	c := userapi.Config{
		NodeID: w.node.ID(), Version: "v9", Listen: "127.0.0.1:0", Workloads: w.records, Streams: w.streams,
		Sign:   func(_ context.Context, m []byte) ([]byte, error) { return w.node.Sign(m), nil },
		Now:    func() (time.Time, bool) { return time.Now(), true },
		Limits: userapi.Limits{Watch: 10 * time.Millisecond},
		Log:    zerolog.New(w.log),
	}
	for _, f := range change {
		f(&c)
	}
	w.door = must[*userapi.Door](t)(userapi.Listen(t.Context(), c))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.door.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Error("the door doesn't close")
		}
	})
	return w
}

// dialer is the user's way to the node.
func (w *world) dialer() nodeapi.Dialer {
	return nodeapi.Dialer{Node: w.node.ID(), User: w.user, Address: w.door.Address()}
}

func (w *world) dial(d nodeapi.Dialer) *nodeapi.Conn {
	w.Helper()
	c, err := d.Dial(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = c.Close() })
	return c
}

// settle waits until ok returns true.
func (w *world) settle(what string, ok func() bool) {
	w.Helper()
	for deadline := time.Now().Add(patience); !ok(); {
		if time.Now().After(deadline) {
			w.Fatal(what)
		}
		select {
		case <-w.Context().Done():
			w.Fatal(what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func refusedBy(err error, kind node.Kind, words string) bool {
	return err != nil && node.KindOf(err) == kind && strings.Contains(err.Error(), words)
}

// tap records the traffic of a connection.
type tap struct {
	net.Conn
	mu   *sync.Mutex
	seen *bytes.Buffer
}

func (c tap) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen.Write(p[:n])
	return n, err
}

func (c tap) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.seen.Write(p)
	c.mu.Unlock()
	return c.Conn.Write(p)
}
