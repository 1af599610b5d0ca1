package bench

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/croft-edge/croft/cmd/croftd/nodetest"
	"github.com/croft-edge/croft/modules/network/netlab"
	"github.com/croft-edge/croft/pkg/workload"
)

// How long the honest user is watched without and with all attacks, and how much
// slower the slowest hundredth of the requests may be.
const (
	quietFor  = time.Minute
	attackFor = 3 * time.Minute
	slower    = 3
	pushEach  = 5 * time.Second
	askEach   = time.Second
)

// BenchmarkAttack runs a node and an explorer under what hostile users and strangers
// have used against them, all at once, beside an honest user: a container that answers
// every second, writes lines, a file on a volume and a value in a namespace, and a
// reservation every five seconds. It fails when a request of the honest user fails.
func BenchmarkAttack(b *testing.B) {
	for b.Loop() {
		bins, err := nodetest.Build(b.Context(), b.TempDir())
		if err != nil {
			b.Fatal(err)
		}
		i := nodetest.NewInternet(b, bins, "--address-rate", "100")
		n, _ := i.Plug("n1", "203.0.113.11", "--cpu-overcommit", "100", "--container-layer", "64MiB", "--zdb-address", "203.0.113.11")
		n.Start()
		n.WaitReady()
		n.WaitRegistered()
		h := newHonest(b, i, n)
		enemy := newEnemy(b, i, n, nodetest.ZDBAddress(h.db))
		h.watch(quietFor)
		quiet := h.take()
		enemy.begin()
		h.watch(attackFor)
		attacked := h.take()
		enemy.end()
		for _, what := range slices.Sorted(keysOf(quiet)) {
			before, after := tail(quiet[what].took), tail(attacked[what].took)
			report(b, "under attack: "+what, fmt.Sprintf("<= %d x quiet, none fails", slower),
				fmt.Sprintf("p99 %.0f of %.0f ms, %d of %d failed", ms(after), ms(before), attacked[what].failed, len(attacked[what].took)),
				float64(after)/float64(before)/slower)
			if attacked[what].failed > 0 {
				b.Errorf("%s: %d failed, the first: %v", what, attacked[what].failed, attacked[what].first)
			}
		}
		for name, size := range enemy.largest {
			fmt.Printf("MEMORY %-12s at most %4d MiB under attack\n", name, size>>20)
		}
		b.Logf("what the enemy did: %s", enemy.told())
	}
}

func keysOf(m map[string]*asked) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// tail is the slowest hundredth.
func tail(all []time.Duration) time.Duration {
	all = slices.Clone(all)
	slices.Sort(all)
	if len(all) == 0 {
		return 0
	}
	return quantile(all, 0.99)
}

// asked is what became of one kind of request.
type asked struct {
	took   []time.Duration
	failed int
	first  error
}

// honest is a user with an app.
type honest struct {
	b         *testing.B
	i         *nodetest.Internet
	n         *nodetest.Node
	host      *netlab.Namespace
	web       *workload.Reservation
	db        workload.ZDBResult
	namespace string
	lines     atomic.Int64

	mu   sync.Mutex
	seen map[string]*asked
}

func newHonest(b *testing.B, i *nodetest.Internet, n *nodetest.Node) *honest {
	b.Helper()
	h := &honest{b: b, i: i, n: n, seen: map[string]*asked{}, host: i.Host("honest", "203.0.113.20")}
	i.Result(i.Push(i.Networks(i.User, "net1", i.Part(n, "10.1.2.0/24", 3001, ""))[0]), workload.StateOK)
	volume := i.Push(i.Volume(n.ID, 1, time.Hour))
	i.Result(volume, workload.StateOK)
	db := i.Push(i.ZDB(n, nil))
	h.db = i.ZDBResult(db)
	h.web = i.Push(i.Container(n, func(c *workload.Container) {
		c.Mounts = []workload.Mount{nodetest.Mount(volume, "/data")}
	}))
	i.Result(h.web, workload.StateOK)
	h.namespace = namespaceOf(n, h.web)
	answers(b, i, h.namespace)
	return h
}

// watch does what the user does, for a time.
func (h *honest) watch(d time.Duration) {
	ctx, cancel := context.WithTimeout(h.b.Context(), d)
	defer cancel()
	var all sync.WaitGroup
	for what, ask := range map[string]func() error{"HTTP": h.get, "log line": h.say, "volume": h.write, "zdb": h.set} {
		all.Go(func() { h.each(ctx, askEach, what, ask) })
	}
	all.Go(func() { h.each(ctx, pushEach, "reservation", h.push) })
	all.Wait()
}

// each asks again and again, each time in its own goroutine: a slow answer doesn't hide the next.
func (h *honest) each(ctx context.Context, pause time.Duration, what string, ask func() error) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	var all sync.WaitGroup
	defer all.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		all.Go(func() {
			began := time.Now()
			h.note(what, began, ask())
		})
	}
}

func (h *honest) note(what string, began time.Time, err error) {
	took := time.Since(began)
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.seen[what]
	if a == nil {
		a = &asked{}
		h.seen[what] = a
	}
	a.took = append(a.took, took)
	if err != nil {
		if a.failed++; a.first == nil {
			a.first = err
		}
	}
}

func (h *honest) take() map[string]*asked {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.seen
	h.seen = map[string]*asked{}
	return out
}

const honestLimit = 30 * time.Second

func (h *honest) get() error {
	_, err := h.i.Get(h.namespace, "http://127.0.0.1:8080/", honestLimit)
	return err
}

// say writes a line, and waits until the node has kept it.
func (h *honest) say() error {
	line := fmt.Sprintf("honest line %d", h.lines.Add(1))
	if _, err := h.i.Do(h.namespace, http.MethodPost, "http://127.0.0.1:8080/say", line+"\n", honestLimit); err != nil {
		return err
	}
	for deadline := time.Now().Add(honestLimit); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		for _, kept := range h.n.LogLines(h.web) {
			if kept.Text == line {
				return nil
			}
		}
	}
	return fmt.Errorf("%q isn't kept after %s", line, honestLimit)
}

func (h *honest) write() error {
	_, err := h.i.Do(h.namespace, http.MethodPut, "http://127.0.0.1:8080/write?path=/data/file", strings.Repeat("x", 64<<10), honestLimit)
	return err
}

func (h *honest) set() error {
	conn, err := h.i.SelectZDB(h.host.Path(), nodetest.ZDBAddress(h.db), h.db.Namespace, "")
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err = conn.Do("SET", "key", strings.Repeat("v", 4<<10)); err != nil {
		return err
	}
	_, err = conn.Do("GET", "key")
	return err
}

// push reserves a volume, waits for it, and deletes it.
func (h *honest) push() error {
	r := h.i.Volume(h.n.ID, 1, time.Hour)
	id, err := h.i.Client.Reserve(h.b.Context(), r)
	if err != nil {
		return err
	}
	r.ID = id
	for deadline := time.Now().Add(honestLimit); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		shown, err := h.i.Client.Get(h.b.Context(), id)
		if err != nil {
			return err
		}
		if shown.Result == nil {
			continue
		}
		if shown.Result.State != workload.StateOK {
			return fmt.Errorf("%s is %s: %s", id, shown.Result.State, shown.Result.Error)
		}
		if err := r.SignDeletion(workload.Deletion{Created: time.Now()}, h.i.User.Private()); err != nil {
			return err
		}
		return h.i.Client.Delete(h.b.Context(), id, *r.Deletion)
	}
	return fmt.Errorf("no result of %s after %s", id, honestLimit)
}
