package bench

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/croft-edge/croft/internal/testing/nodetest"
)

// How often the honest user pushes, and how much slower the slowest hundredth of the requests may be
// under attack.
const (
	slower   = 3
	pushEach = 5 * time.Second
	askEach  = time.Second
)

// How long the honest user is watched without and with all attacks, equally long: the slowest hundredth
// of a few requests is faster than that of many. The environment may set other durations, to try the
// benchmark; a short run's figures mean little.
const (
	quietVariable, quietDefault   = "CROFT_ATTACK_QUIET", 4 * time.Minute
	attackVariable, attackDefault = "CROFT_ATTACK_FOR", 4 * time.Minute
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

// BenchmarkAttack runs a node and an explorer under all known attacks of hostile users and strangers at
// once, beside an honest user: a container that answers every second, writes lines, a file on a volume
// and a value in a namespace, and a reservation every five seconds. It fails when a request of the
// honest user fails, when a process of croft's exceeds its memory limit, when an image bomb is
// accepted, and, on an otherwise idle machine, when the honest user waits three times as long.
func BenchmarkAttack(b *testing.B) {
	quietFor, attackFor := watchFor(b, quietVariable, quietDefault), watchFor(b, attackVariable, attackDefault)
	for b.Loop() {
		bins, err := nodetest.Build(b.Context(), b.TempDir())
		if err != nil {
			b.Fatal(err)
		}
		m := lookAtMachine()
		i := nodetest.NewInternet(b, bins, "--address-rate", "100")
		n, _ := i.Plug("n1", "203.0.113.11", "--cpu-overcommit", "100", "--container-layer", "64MiB", "--zdb-address", "203.0.113.11", "--heartbeat", "1m",
			"--image-plain-http", bombRegistry, "--max-image-size", bombImage, "--pool-size", "24GiB")
		n.Start()
		n.WaitReady()
		n.WaitRegistered()
		h := newHonest(b, i, n)
		enemy := newEnemy(b, i, n, h.order.ZDB)
		var quiet, attacked map[string]*asked
		m.quiet(func() { quiet = h.watch(quietFor) })
		enemy.begin()
		attacked = h.watch(attackFor)
		enemy.end()
		compare(b, quiet, attacked, m)
		enemy.memory.judge(b)
		enemy.bombs.tell()
		b.Logf("what the enemy did: %s", enemy.told())
	}
}

// compare prints the outcome of each kind of request, and fails when one failed. Durations are judged
// only on an otherwise idle machine. The last line is how many requests of all kinds took longer than
// their kind may: it isn't judged, but travels better than the slowest hundredth of a few.
func compare(b *testing.B, quiet, attacked map[string]*asked, m *machine) {
	b.Helper()
	fmt.Printf("MACHINE %s\n", m)
	slow, all := 0, 0
	for _, what := range requests() {
		before, after := quiet[what], attacked[what]
		if before == nil || after == nil {
			b.Errorf("%s: nothing was asked", what)
			continue
		}
		slow, all = slow+over(after.Took, slower*tail(before.Took)), all+len(after.Took)
		ratio := float64(tail(after.Took)) / float64(tail(before.Took))
		report(b, "under attack: "+what, fmt.Sprintf("<= %d x quiet, none fails", slower),
			fmt.Sprintf("p99 %.0f of %.0f ms, p50 %.0f of %.0f ms, %d of %d failed", ms(tail(after.Took)), ms(tail(before.Took)), ms(half(after.Took)), ms(half(before.Took)), after.Failed, len(after.Took)), ratio/slower)
		for when, a := range map[string]*asked{"while it was quiet": before, "under attack": after} {
			if a.Failed > 0 {
				b.Errorf("%s: %d of %d failed %s, the first: %s", what, a.Failed, len(a.Took), when, a.First)
			}
		}
		if ratio > slower && m.idle() {
			b.Errorf("%s: the slowest hundredth takes %.1f times as long under attack, at most %d are allowed", what, ratio, slower)
		}
	}
	fmt.Printf("SLOW %d of all %d requests took more than %d x their kind's quiet p99\n", slow, all, slower)
}

// over counts the durations above limit.
func over(took []time.Duration, limit time.Duration) (n int) {
	for _, t := range took {
		if t > limit {
			n++
		}
	}
	return n
}

// requests are the kinds of the honest user's requests.
func requests() []string { return []string{"HTTP", "log line", "reservation", "volume", "zdb"} }

// tail is the 99th percentile, half the median.
func tail(all []time.Duration) time.Duration { return share(all, 0.99) }
func half(all []time.Duration) time.Duration { return share(all, 0.5) }

func share(all []time.Duration, q float64) time.Duration {
	all = slices.Clone(all)
	slices.Sort(all)
	if len(all) == 0 {
		return 0
	}
	return quantile(all, q)
}
