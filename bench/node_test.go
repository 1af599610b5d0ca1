package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/pkg/workload"
)

// wholeNode is an explorer and a node in one process, without workloads.
func wholeNode(b *testing.B) (*nodetest.World, *nodetest.Node) {
	b.Helper()
	bins, err := nodetest.Build(b.Context(), b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	w := nodetest.New(b, bins)
	w.StartExplorer("--key-rate", "0", "--address-rate", "0")
	return w, w.StartNode("n", "--disk", "SSD:"+w.Disk(600), "--log-level", "info", "--heartbeat", "1m", "--poll-wait", "30s")
}

// accepted matches the time in a record at which the node accepted the reservation.
var accepted = regexp.MustCompile(`"accepted":"([^"]+)"`)

// pickedUp is the time at which the node accepted r, from its own record.
func pickedUp(b *testing.B, n *nodetest.Node, r *workload.Reservation) time.Time {
	b.Helper()
	raw, err := os.ReadFile(filepath.Join(n.StateDir(), "store", r.ID))
	if err != nil {
		b.Fatal(err)
	}
	found := accepted.FindSubmatch(raw)
	if found == nil {
		b.Fatalf("the record of %s has no time: %s", r.ID, raw)
	}
	at, err := time.Parse(time.RFC3339Nano, string(found[1]))
	if err != nil {
		b.Fatal(err)
	}
	return at
}

func quantile[T any](sorted []T, q float64) T {
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// BenchmarkPushToPickUp measures from before a push until the node's own record of accepting it, on an
// otherwise idle node.
func BenchmarkPushToPickUp(b *testing.B) {
	const pushes, budget, idle = 300, 100 * time.Millisecond, 50 * time.Millisecond
	for b.Loop() {
		w, n := wholeNode(b)
		var took, pushed []time.Duration
		for range pushes {
			r := w.Volume(n.ID, 1, time.Hour)
			began := time.Now()
			w.Push(r)
			pushed = append(pushed, time.Since(began))
			w.Result(r, workload.StateOK)
			took = append(took, pickedUp(b, n, r).Sub(began))
			// Idle again: the result is acknowledged and the next poll waits.
			time.Sleep(idle)
		}
		slices.Sort(took)
		slices.Sort(pushed)
		if took[0] <= 0 {
			b.Fatalf("picked up %s before it was pushed", -took[0])
		}
		p99 := quantile(took, 0.99)
		report(b, "push to pick-up, idle node, p99", "<= 100 ms",
			fmt.Sprintf("%.1f ms (p50 %.1f ms)", ms(p99), ms(quantile(took, 0.5))), float64(p99)/float64(budget))
		b.Logf("the push alone, until the explorer has it durably: p50 %.1f ms, p99 %.1f ms", ms(quantile(pushed, 0.5)), ms(quantile(pushed, 0.99)))
	}
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

// anonymous is the process's RssAnon in MB, the minimum of several readings, as the time of garbage
// collections is random.
func anonymous(b *testing.B, pid int) float64 {
	b.Helper()
	return slices.Min(anonymousFor(b, pid, 10, 500*time.Millisecond))
}

// anonymousFor reads a process's anonymous memory so many times, in MB.
func anonymousFor(b *testing.B, pid, times int, every time.Duration) (all []float64) {
	b.Helper()
	line := regexp.MustCompile(`RssAnon:\s+(\d+) kB`)
	for range times {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			b.Fatal(err)
		}
		kb, err := strconv.ParseFloat(string(line.FindSubmatch(raw)[1]), 64)
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, kb*1024/1e6)
		time.Sleep(every)
	}
	return all
}

// BenchmarkNode500 measures memory without and with 500 volumes, and a restart by SIGKILL with all of
// them.
func BenchmarkNode500(b *testing.B) {
	const volumes = 500
	for b.Loop() {
		w, n := wholeNode(b)
		idle := anonymous(b, n.PID())
		report(b, "agent memory, 0 workloads (RssAnon)", "<= 40 MB", fmt.Sprintf("%.1f MB", idle), idle/40)

		began := time.Now()
		var all []*workload.Reservation
		for range volumes {
			all = append(all, w.Reserve(n, time.Hour))
		}
		for _, r := range all {
			w.Result(r, workload.StateOK)
		}
		b.Logf("%d volumes from push to result in %s", volumes, time.Since(began))
		full := anonymous(b, n.PID())
		report(b, "agent memory, 500 workloads (RssAnon)", "<= 80 MB", fmt.Sprintf("%.1f MB", full), full/80)

		before := n.Subvolumes()
		n.Kill()
		began = time.Now()
		n.Start()
		w.Until(60*time.Second, "the bus is open", func() bool {
			_, err := os.Stat(filepath.Join(n.RunDir(), "bus.sock"))
			return err == nil && n.Address() != ""
		})
		counted := w.Counters(n).Volume
		first := time.Since(began)
		if counted != volumes {
			b.Errorf("the counters' first value is %d volumes, must be %d", counted, volumes)
		}
		w.Until(60*time.Second, "all are adopted", func() bool { return n.Status().Adopted })
		took := time.Since(began)
		if s := n.Status(); s.Counters.Volume != volumes || len(s.Orphans) != 0 {
			b.Errorf("after the restart: %+v, %d orphans", s.Counters, len(s.Orphans))
		}
		made := 0
		for id, when := range n.Subvolumes() {
			if before[id] != when {
				made++
			}
		}
		if made != 0 || len(before) != volumes || len(n.Subvolumes()) != volumes {
			b.Errorf("%d of %d volumes were made again", made, len(before))
		}
		report(b, "restart with 500 workloads, all adopted", "<= 2 s",
			fmt.Sprintf("%.2f s (first count %.2f s)", took.Seconds(), first.Seconds()), took.Seconds()/2)
		again := anonymous(b, n.PID())
		report(b, "agent memory, 500 adopted (RssAnon)", "<= 80 MB", fmt.Sprintf("%.1f MB", again), again/80)
	}
}
