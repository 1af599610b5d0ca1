package api

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	wire "github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// zeros is an endless body.
type zeros struct{ read atomic.Int64 }

func (z *zeros) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	z.read.Add(int64(len(b)))
	return len(b), nil
}

// A body of 100 MB is refused without being read to its end.
func TestAHugeBodyIsRefused(t *testing.T) {
	h := start(t)
	key, _ := h.node()
	for name, length := range map[string]int64{"said": 100 << 20, "not said": -1} {
		t.Run(name, func(t *testing.T) {
			body := &zeros{}
			r, err := http.NewRequest("POST", h.server.URL+"/reservations/"+key.ID(), io.NopCloser(io.LimitReader(body, 100<<20)))
			must(t, err)
			r.ContentLength = length
			resp, err := h.http.Do(r)
			// The explorer may close while the client still writes.
			if err == nil {
				if resp.StatusCode != http.StatusRequestEntityTooLarge {
					t.Errorf("it answers %d, want 413", resp.StatusCode)
				}
				_ = resp.Body.Close()
			} else if !strings.Contains(err.Error(), "reset") && !strings.Contains(err.Error(), "broken pipe") && !strings.Contains(err.Error(), "closed") {
				t.Error(err)
			}
			if n := body.read.Load(); n > 20<<20 {
				t.Errorf("%d bytes of it were taken", n)
			}
		})
	}
	if got := h.push(newKey(t), key.ID()); got.ID != "1-1" {
		t.Errorf("after it the first push is %s", got.ID)
	}
	// A body of the largest allowed size is parsed.
	p := h.problem("POST", "/reservations/"+key.ID(), strings.Repeat(" ", MaxBody), 400)
	if strings.Contains(p.Detail, "larger") {
		t.Errorf("a body of 1 MiB is called too large: %s", p.Detail)
	}
	h.problem("POST", "/reservations/"+key.ID(), strings.Repeat(" ", MaxBody+1), 413)
}

func TestRateLimits(t *testing.T) {
	h := start(t, func(c *Config) { c.Policy.KeyRate, c.Policy.KeyBurst = 0.01, 2 })
	greedy, modest := newKey(t), newKey(t)
	key := newKey(t)
	nodeClient := h.client(wire.RoleNode, &key)
	must(t, nodeClient.RegisterNode(t.Context(), wire.Node{NodeID: key.ID()}))
	h.push(greedy, key.ID())
	// A forged push in the victim's name doesn't count against it.
	forged := h.volume(greedy, key.ID())
	forged.Duration++
	_, err := h.anybody().Reserve(t.Context(), forged)
	wantKind(t, err, node.Invalid)
	h.push(greedy, key.ID())
	_, err = h.anybody().Reserve(t.Context(), h.volume(greedy, key.ID()))
	wantKind(t, err, node.Busy)
	var answer *wire.AnswerError
	if !asAnswer(err, &answer) || answer.RetryAfter < time.Second {
		t.Errorf("the refusal is %v, want it to say when to come back", err)
	}
	h.push(modest, key.ID())
	// A node's results have their own rate.
	r := h.push(newKey(t), key.ID())
	for i := range 20 {
		must(t, h.anybody().PutResult(t.Context(), h.result(key, r, func(out *workload.Result) { out.Sequence = int64(i + 1) })))
	}
	_, _, metrics := h.do("GET", "/metrics", "")
	if !strings.Contains(metrics, `croft_explorer_limited_total{by="key"} 1`) {
		t.Error("the metrics don't count the refusal")
	}
}

func asAnswer(err error, into **wire.AnswerError) bool {
	e, ok := err.(*wire.AnswerError) //nolint:errorlint // the client returns it bare
	*into = e
	return ok
}

func TestAddressLimit(t *testing.T) {
	h := start(t, func(c *Config) { c.Policy.AddressRate, c.Policy.AddressBurst = 0.01, 3 })
	for i := range 5 {
		status, header, _ := h.do("GET", "/info", "")
		if want := map[bool]int{true: 200, false: 429}[i < 3]; status != want {
			t.Errorf("request %d answers %d, want %d", i, status, want)
		}
		if status == 429 && header.Get("Retry-After") == "" {
			t.Error("429 without Retry-After")
		}
	}
}

// The holder of a /64 can use all of its addresses: they count as one.
func TestTheLimitOfAddressesCountsNetworks(t *testing.T) {
	h := start(t, func(c *Config) { c.Policy.AddressRate, c.Policy.AddressBurst = 0.01, 3 })
	ask := func(remote string) int {
		r := httptest.NewRequest("GET", "/info", nil)
		r.RemoteAddr = remote
		w := httptest.NewRecorder()
		h.api.ServeHTTP(w, r)
		return w.Code
	}
	for i := range 6 {
		if status, want := ask(fmt.Sprintf("[2001:db8::%x]:80", i)), map[bool]int{true: 200, false: 429}[i < 3]; status != want {
			t.Errorf("address %d of a /64 is answered %d, want %d", i, status, want)
		}
	}
	for _, remote := range []string{"[2001:db8:0:1::]:80", "192.0.2.1:80", "192.0.2.2:80"} {
		if status := ask(remote); status != 200 {
			t.Errorf("%s is answered %d", remote, status)
		}
	}
}

func TestLimitsForgetInBounds(t *testing.T) {
	l := newBuckets(1, 1)
	now := time.Now()
	if l.wait("me", now) != 0 || l.wait("me", now) == 0 {
		t.Fatal("a burst of 1 allows exactly 1")
	}
	for i := range 3 * maxLimited {
		l.wait(fmt.Sprint(i), now)
	}
	if n := len(l.now) + len(l.old); n > 2*maxLimited {
		t.Errorf("it remembers %d, at most %d are allowed", n, 2*maxLimited)
	}
	if d := l.wait("last", now); d != 0 {
		t.Errorf("a new key waits %s", d)
	}
}

func TestPolicyIsChecked(t *testing.T) {
	for name, change := range map[string]func(*Policy){
		"duration 0":        func(p *Policy) { p.MaxDuration = 0 },
		"duration too long": func(p *Policy) { p.MaxDuration = 1 << 62 },
		"wait 0":            func(p *Policy) { p.MaxWait = 0 },
		"no polls":          func(p *Policy) { p.MaxPolls = 0 },
		"negative rate":     func(p *Policy) { p.KeyRate = -1 },
		"no burst":          func(p *Policy) { p.AddressBurst = 0 },
	} {
		p := DefaultPolicy()
		change(&p)
		if p.Validate() == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	must(t, DefaultPolicy().Validate())
}

// A panic fails only its request, with an error that shows no internals.
func TestAPanicIsAnAnswer(t *testing.T) {
	h := start(t, func(c *Config) {
		now := c.Now
		calls := 0
		c.Now = func() time.Time {
			if calls++; calls == 1 {
				panic("secret inside")
			}
			return now()
		}
	})
	p := h.problem("GET", "/info", "", 500)
	if strings.Contains(p.Detail, "secret") {
		t.Errorf("the answer says %q", p.Detail)
	}
	if status, _, _ := h.do("GET", "/info", ""); status != 200 {
		t.Errorf("after a panic it answers %d", status)
	}
}

// A full disk is answered as a node's door answers it: both use one table.
func TestNoSpaceIsAnsweredAsByADoor(t *testing.T) {
	p := problemOf(node.Errorf(node.NoSpace, "cannot write: the disk is full"))
	if p.Status != 507 || p.Kind != string(node.NoSpace) {
		t.Errorf("the answer is %+v", p)
	}
}

// Each route is in the OpenAPI document, and each operation there is a route.
func TestRoutesAreDescribed(t *testing.T) {
	h := start(t)
	routes := map[string]bool{}
	for _, r := range (&Server{}).routes() {
		routes[r.pattern] = true
	}
	described := map[string]bool{}
	for _, op := range h.checker.Operations() {
		described[op] = true
		if !routes[op] {
			t.Errorf("%s is described and isn't a route", op)
		}
	}
	for r := range routes {
		if !described[r] {
			t.Errorf("%s isn't described", r)
		}
	}
}

// Farms, nodes and bytes per day are limited by source, however many keys it makes.
func TestNewThingsAreCountedBySource(t *testing.T) {
	h := start(t, unchecked, func(c *Config) { c.Policy.AddressRate, c.Policy.AddressBurst = 1e6, 1e6 })
	for i := range newFarms.Each + 1 {
		key := newKey(t)
		_, err := h.client(wire.RoleUser, &key).CreateFarm(t.Context(), fmt.Sprint("farm ", i))
		if i < newFarms.Each {
			must(t, err)
		} else {
			wantKind(t, err, node.Busy)
		}
	}
	for i := range newNodes.Each + 1 {
		key := newKey(t)
		c := h.client(wire.RoleNode, &key)
		err := c.RegisterNode(t.Context(), wire.Node{NodeID: key.ID()})
		if i == newNodes.Each {
			wantKind(t, err, node.Busy)
			continue
		}
		must(t, err)
		if i == 0 {
			must(t, c.RegisterNode(t.Context(), wire.Node{NodeID: key.ID()}))
		}
	}
	l := h.api.rates.newBytes.buckets
	now, taken := time.Now(), 0
	for l.waitN("me", now, MaxBody) == 0 {
		taken++
	}
	if taken != 64 || l.waitN("other", now, MaxBody) != 0 || l.waitN("me", now.Add(24*time.Hour), MaxBody) != 0 {
		t.Errorf("%d MiB come at once", taken)
	}
}

func TestNoSpaceSaysWhenToComeBack(t *testing.T) {
	w := httptest.NewRecorder()
	writeProblem(w, node.Errorf(node.NoSpace, "cannot keep it"))
	if w.Code != 507 || w.Header().Get("Retry-After") == "" {
		t.Errorf("no space is %d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
	}
}
