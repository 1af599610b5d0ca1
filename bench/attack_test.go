package bench

import (
	"context"
	"fmt"
	"net/http"
	"os"
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

// What the honest user does how often, and how much slower the slowest hundredth of the
// requests may be under attack.
const (
	slower   = 3
	pushEach = 5 * time.Second
	askEach  = time.Second
)

// How long the honest user is watched without and with all attacks. The environment may
// say other durations, to try the benchmark: figures of a short run say little.
const (
	quietVariable, quietDefault   = "CROFT_ATTACK_QUIET", time.Minute
	attackVariable, attackDefault = "CROFT_ATTACK_FOR", 3 * time.Minute
)

func watchFor(b *testing.B, variable string, otherwise time.Duration) time.Duration {
	b.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 2*pushEach {
		b.Fatalf("%s is %q, must be a duration from %s", variable, text, 2*pushEach)
	}
	return d
}

// BenchmarkAttack runs a node and an explorer under what hostile users and strangers
// have used against them, all at once, beside an honest user: a container that answers
// every second, writes lines, a file on a volume and a value in a namespace, and a
// reservation every five seconds. It fails when a request of the honest user fails, when
// a process of croft's has more memory than its ceiling, when an image bomb is taken, and,
// on a machine that did nothing else, when the honest user waits three times as long.
func BenchmarkAttack(b *testing.B) {
	quietFor, attackFor := watchFor(b, quietVariable, quietDefault), watchFor(b, attackVariable, attackDefault)
	for b.Loop() {
		bins, err := nodetest.Build(b.Context(), b.TempDir())
		if err != nil {
			b.Fatal(err)
		}
		m := lookAtMachine()
		i := nodetest.NewInternet(b, bins, "--address-rate", "100")
		n, _ := i.Plug("n1", "203.0.113.11", "--cpu-overcommit", "100", "--container-layer", "64MiB", "--zdb-address", "203.0.113.11",
			"--image-plain-http", bombRegistry, "--max-image-size", bombImage, "--pool-size", "24GiB")
		n.Start()
		n.WaitReady()
		n.WaitRegistered()
		h := newHonest(b, i, n)
		enemy := newEnemy(b, i, n, nodetest.ZDBAddress(h.db))
		m.quiet(func() { h.watch(quietFor) })
		quiet := h.take()
		enemy.begin()
		h.watch(attackFor)
		attacked := h.take()
		enemy.end()
		compare(b, quiet, attacked, m)
		enemy.memory.judge(b)
		enemy.bombs.tell()
		b.Logf("what the enemy did: %s", enemy.told())
	}
}

// compare prints what became of each kind of request, and fails when one failed. How long
// they took is judged only on a machine that did nothing else.
func compare(b *testing.B, quiet, attacked map[string]*asked, m *machine) {
	b.Helper()
	fmt.Printf("MACHINE %s\n", m)
	for _, what := range requests() {
		before, after := quiet[what], attacked[what]
		if before == nil || after == nil {
			b.Errorf("%s: nothing was asked", what)
			continue
		}
		ratio := float64(tail(after.took)) / float64(tail(before.took))
		report(b, "under attack: "+what, fmt.Sprintf("<= %d x quiet, none fails", slower),
			fmt.Sprintf("p99 %.0f of %.0f ms, %d of %d failed", ms(tail(after.took)), ms(tail(before.took)), after.failed, len(after.took)), ratio/slower)
		for when, a := range map[string]*asked{"while it was quiet": before, "under attack": after} {
			if a.failed > 0 {
				b.Errorf("%s: %d of %d failed %s, the first: %v", what, a.failed, len(a.took), when, a.first)
			}
		}
		if ratio > slower && m.idle() {
			b.Errorf("%s: the slowest hundredth takes %.1f times as long under attack, at most %d are allowed", what, ratio, slower)
		}
	}
}

// requests are what the honest user asks for.
func requests() []string { return []string{"HTTP", "log line", "reservation", "volume", "zdb"} }

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
