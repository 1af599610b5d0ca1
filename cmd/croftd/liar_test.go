package main_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// liar is an explorer that shows a node any document, under any ID and with any time. Nodes register
// with the real one behind it.
type liar struct {
	*httptest.Server
	w       *nodetest.World
	mu      sync.Mutex
	shown   map[string]json.RawMessage
	changed map[string]uint64
	head    uint64
	ahead   time.Duration
	results map[string]*workload.Result
}

// startLiar makes a world whose node polls a lying explorer.
func startLiar(t *testing.T) (*nodetest.Node, *liar) {
	t.Helper()
	t.Parallel()
	w := nodetest.New(t, bins)
	w.StartExplorer()
	target, err := url.Parse(w.URL)
	if err != nil {
		t.Fatal(err)
	}
	l := &liar{w: w, shown: map[string]json.RawMessage{}, changed: map[string]uint64{}, results: map[string]*workload.Result{}}
	reverse := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = r.In.Host }, FlushInterval: -1}
	l.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/poll"):
			l.poll(rw, r)
		case r.Method == http.MethodPut && strings.HasPrefix(r.URL.Path, "/reservations/"):
			l.take(rw, r)
		default:
			reverse.ServeHTTP(rw, r)
		}
	}))
	w.AfterKill(l.Close)
	return w.StartNode("n", "--explorer", l.URL), l
}

// show gives the node a document under an ID, in place of an earlier one.
func (l *liar) show(id string, r *workload.Reservation) {
	l.w.Helper()
	c := *r
	c.ID = id
	raw, err := explorer.EncodeReservation(&c)
	if err != nil {
		l.w.Fatal(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.head++
	l.shown[id], l.changed[id] = raw, l.head
	delete(l.results, id)
}

// hide withdraws all shown documents.
func (l *liar) hide() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.shown)
	clear(l.changed)
	clear(l.results)
}

// runAhead makes the explorer's time run ahead of the real one by that much.
func (l *liar) runAhead(by time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ahead = by
}

func (l *liar) page(after uint64, epoch string) explorer.Page {
	l.mu.Lock()
	defer l.mu.Unlock()
	const mine = "liar"
	p := explorer.Page{Epoch: mine, Head: l.head, Next: l.head, Time: time.Now().Add(l.ahead), Resync: epoch != mine || after > l.head}
	if p.Resync {
		after = 0
	}
	for id, at := range l.changed {
		if at > after {
			p.Reservations = append(p.Reservations, l.shown[id])
		}
	}
	return p
}

func (l *liar) poll(rw http.ResponseWriter, r *http.Request) {
	after, err := strconv.ParseUint(r.URL.Query().Get("after"), 10, 64)
	if err != nil {
		http.Error(rw, "no", http.StatusBadRequest)
		return
	}
	var page explorer.Page
	for deadline := time.Now().Add(time.Second); ; {
		page = l.page(after, r.URL.Query().Get("epoch"))
		if len(page.Reservations) > 0 || page.Resync || time.Now().After(deadline) {
			break
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-r.Context().Done():
			return
		}
	}
	raw, err := json.Marshal(page)
	if err != nil {
		http.Error(rw, "no", http.StatusInternalServerError)
		return
	}
	_, _ = rw.Write(raw)
}

func (l *liar) take(rw http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	result, decoded := workload.DecodeResult(raw)
	if err != nil || decoded != nil {
		http.Error(rw, "no", http.StatusBadRequest)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.results[result.ID] = result
	rw.WriteHeader(http.StatusNoContent)
}

// told waits for the node's signed result for a document.
func (l *liar) told(id string, r *workload.Reservation, state workload.State) *workload.Result {
	l.w.Helper()
	var last *workload.Result
	l.w.Until(nodetest.Soon, id+" has the result "+string(state), func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		last = l.results[id]
		return last != nil && last.State == state
	})
	hash, err := r.Hash()
	if err != nil {
		l.w.Fatal(err)
	}
	if err := workload.VerifyResult(last, r.NodeID, hash); err != nil {
		l.w.Fatal(err)
	}
	return last
}

// volumeOf is a volume of 1 GiB, signed by a user.
func volumeOf(t *testing.T, user sign.KeyPair, n *nodetest.Node, lasts time.Duration) *workload.Reservation {
	t.Helper()
	r := &workload.Reservation{
		NodeID: n.ID, Type: workload.TypeVolume, Created: time.Now(), Duration: lasts, Data: json.RawMessage(`{"size":1,"type":"SSD"}`),
	}
	if err := r.Sign(user.Private()); err != nil {
		t.Fatal(err)
	}
	return r
}

// deletedBy returns r with its user's signed deletion.
func deletedBy(t *testing.T, user sign.KeyPair, r *workload.Reservation) *workload.Reservation {
	t.Helper()
	c := *r
	if err := c.SignDeletion(workload.Deletion{Created: time.Now()}, user.Private()); err != nil {
		t.Fatal(err)
	}
	return &c
}

func newUser(t *testing.T) sign.KeyPair {
	t.Helper()
	user, err := sign.Generate()
	if err != nil {
		t.Fatal(err)
	}
	return user
}
