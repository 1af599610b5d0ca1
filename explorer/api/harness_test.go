package api

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/croft-edge/croft/explorer/longpoll"
	"github.com/croft-edge/croft/explorer/store"
	"github.com/croft-edge/croft/internal/testing/openapitest"
	wire "github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock is a clock set by the test.
type clock struct{ ns atomic.Int64 }

func (c *clock) set(t time.Time)     { c.ns.Store(t.UnixNano()) }
func (c *clock) add(d time.Duration) { c.ns.Add(int64(d)) }
func (c *clock) now() time.Time      { return time.Unix(0, c.ns.Load()) }

// harness is an explorer on a real database, and an HTTP client that checks every
// response against the OpenAPI document.
type harness struct {
	t       *testing.T
	path    string
	store   *store.Store
	waiters *longpoll.Waiters
	api     *Server
	server  *httptest.Server
	once    sync.Once
	checker *openapitest.Transport
	http    *http.Client
	clock   *clock
}

// described is the OpenAPI document, read once.
var described = sync.OnceValues(func() (*openapitest.Document, error) {
	doc, err := openAPI()
	if err != nil {
		return nil, err
	}
	return openapitest.Load(doc)
})

func testPolicy() Policy {
	p := DefaultPolicy()
	p.KeyRate, p.AddressRate = 0, 0
	return p
}

func start(t *testing.T, change ...func(*Config)) *harness {
	t.Helper()
	return startAt(t, filepath.Join(memory(t), "explorer.db"), change...)
}

// memory is a folder in memory: these tests check answers. Package store and
// cmd/explorer test crashes, on a disk.
func memory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "croft-explorer-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func startAt(t *testing.T, path string, change ...func(*Config)) *harness {
	t.Helper()
	h := &harness{t: t, path: path, waiters: longpoll.NewWaiters(), clock: &clock{}}
	h.clock.set(time.Now())
	metrics := NewMetrics()
	var err error
	h.store, err = store.Open(context.Background(), store.Config{Path: path, Changed: h.waiters.Changed, Committed: metrics.Committed})
	if err != nil {
		t.Fatal(err)
	}
	h.serve(metrics, change...)
	t.Cleanup(h.stop)
	return h
}

func (h *harness) serve(metrics *Metrics, change ...func(*Config)) {
	h.t.Helper()
	c := Config{
		Store: h.store, Waiters: h.waiters, Policy: testPolicy(), Metrics: metrics, Log: zerolog.Nop(),
		Version: "test", Now: h.clock.now, Validate: workload.Validate,
	}
	for _, f := range change {
		f(&c)
	}
	var err error
	if h.api, err = New(c); err != nil {
		h.t.Fatal(err)
	}
	h.server = httptest.NewServer(h.api)
	doc, err := described()
	if err != nil {
		h.t.Fatal(err)
	}
	h.checker = doc.Transport(h.t)
	h.checker.Inner = &http.Transport{MaxIdleConnsPerHost: 64}
	h.http = &http.Client{Transport: h.checker, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func (h *harness) stop() {
	h.once.Do(func() {
		h.waiters.Close()
		h.server.Close()
		h.checker.Inner.(*http.Transport).CloseIdleConnections()
		if err := h.store.Close(); err != nil {
			h.t.Error(err)
		}
	})
}

// do sends a request unchanged and returns status, headers and body.
func (h *harness) do(method, path, body string) (int, http.Header, string) {
	h.t.Helper()
	r, err := http.NewRequest(method, h.server.URL+path, bytes.NewReader([]byte(body)))
	if err != nil {
		h.t.Fatal(err)
	}
	resp, err := h.http.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(out)
}

// problem sends a request that must be refused with that status, and returns the problem.
func (h *harness) problem(method, path, body string, status int) wire.Problem {
	h.t.Helper()
	got, _, answer := h.do(method, path, body)
	if got != status {
		h.t.Fatalf("%s %s answers %d, want %d: %s", method, path, got, status, answer)
	}
	var p wire.Problem
	if err := json.Unmarshal([]byte(answer), &p); err != nil {
		h.t.Fatalf("%s: %v", answer, err)
	}
	if p.Error == "" || p.Error != p.Detail || p.Status != status {
		h.t.Errorf("problem is %+v: Error must be Detail, and status %d", p, status)
	}
	return p
}

// client is a client with the checked transport. key may be nil.
func (h *harness) client(role wire.Role, key *sign.KeyPair) *wire.Client {
	h.t.Helper()
	c := wire.Config{URL: h.server.URL, Transport: h.checker, Timeout: 20 * time.Second, Now: h.clock.now}
	if key != nil {
		c.Signer = wire.KeySigner(role, *key)
	}
	client, err := wire.NewClient(c)
	if err != nil {
		h.t.Fatal(err)
	}
	return client
}

func (h *harness) anybody() *wire.Client { return h.client("", nil) }

// node registers a new node.
func (h *harness) node() (sign.KeyPair, *wire.Client) {
	h.t.Helper()
	key := newKey(h.t)
	c := h.client(wire.RoleNode, &key)
	if err := c.RegisterNode(h.t.Context(), wire.Node{NodeID: key.ID(), OSVersion: "test"}); err != nil {
		h.t.Fatal(err)
	}
	return key, c
}

func newKey(t *testing.T) sign.KeyPair {
	t.Helper()
	key, err := sign.Generate()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// volume is a valid reservation of a volume, changed by change before it is signed.
func (h *harness) volume(user sign.KeyPair, nodeID string, change ...func(*workload.Reservation)) *workload.Reservation {
	h.t.Helper()
	r := &workload.Reservation{
		NodeID: nodeID, Type: workload.TypeVolume, Data: json.RawMessage(`{"size":1,"type":"SSD"}`),
		Created: h.clock.now().UTC(), Duration: time.Hour,
	}
	for _, f := range change {
		f(r)
	}
	if err := r.Sign(user.Private()); err != nil {
		h.t.Fatal(err)
	}
	return r
}

// push pushes a valid reservation and sets its ID.
func (h *harness) push(user sign.KeyPair, nodeID string, change ...func(*workload.Reservation)) *workload.Reservation {
	h.t.Helper()
	r := h.volume(user, nodeID, change...)
	id, err := h.anybody().Reserve(h.t.Context(), r)
	if err != nil {
		h.t.Fatal(err)
	}
	r.ID = id
	return r
}

// pushMany pushes n valid reservations concurrently: they share commits.
func (h *harness) pushMany(user sign.KeyPair, nodeID string, n int) {
	h.t.Helper()
	todo := make(chan *workload.Reservation)
	var pushing sync.WaitGroup
	for range 16 {
		pushing.Go(func() {
			for r := range todo {
				if _, err := h.anybody().Reserve(context.Background(), r); err != nil {
					h.t.Error(err)
				}
			}
		})
	}
	for range n {
		todo <- h.volume(user, nodeID)
	}
	close(todo)
	pushing.Wait()
}

// result is the node's signed result, changed by change before it is signed.
func (h *harness) result(key sign.KeyPair, r *workload.Reservation, change ...func(*workload.Result)) *workload.Result {
	h.t.Helper()
	hash, err := r.Hash()
	if err != nil {
		h.t.Fatal(err)
	}
	out := &workload.Result{
		Type: r.Type, ID: r.ID, Created: h.clock.now().UTC(), State: workload.StateOK, Data: json.RawMessage(`{"volume_id":"1-1"}`),
		Hash: hash[:], Birth: "birth-1", Sequence: 1, NodeID: key.ID(),
	}
	for _, f := range change {
		f(out)
	}
	message, err := out.SigningBytes()
	if err != nil {
		h.t.Fatal(err)
	}
	out.Signature = key.Sign(message)
	return out
}

func wantKind(t *testing.T, err error, kind node.Kind) {
	t.Helper()
	if node.KindOf(err) != kind {
		t.Fatalf("error is %v (%s), want kind %q", err, node.KindOf(err), kind)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
