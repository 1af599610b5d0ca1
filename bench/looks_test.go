package bench

import (
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/cosi-project/runtime/pkg/state"

	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/modules/storage/notice"
	"github.com/croft-edge/croft/pkg/resources/registry"
	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/pkg/statesocket"
	"github.com/croft-edge/croft/pkg/workload"
)

// looksAt connects to a node's state.
func looksAt(b *testing.B, n *nodetest.Node) *statesocket.Client {
	b.Helper()
	if err := registry.Register(); err != nil {
		b.Fatal(err)
	}
	c, err := statesocket.Dial(b.Context(), filepath.Join(n.RunDir(), "state.sock"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() })
	return c
}

// sightings are the times at which each thing was first seen, by name.
type sightings struct {
	mu sync.Mutex
	of map[string]time.Time
}

func (s *sightings) see(name string) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[name].IsZero() {
		s.of[name] = now
	}
}

func (s *sightings) first(name string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[name]
}

// watch watches a node's workloads with a connection of its own.
func watch(b *testing.B, n *nodetest.Node) *sightings {
	b.Helper()
	s := &sightings{of: map[string]time.Time{}}
	events := make(chan state.Event, 16)
	if err := looksAt(b, n).WatchKind(b.Context(), work.NewWorkload("").Metadata(), events, state.WithBootstrapContents(true)); err != nil {
		b.Fatal(err)
	}
	go func() {
		for {
			select {
			case <-b.Context().Done():
				return
			case e := <-events:
				if e.Resource != nil {
					s.see(e.Resource.Metadata().ID())
				}
			}
		}
	}()
	return s
}

// records watches the folder of a node's records: each comes to its name with its content on the disk, and is durable a moment later.
func records(b *testing.B, n *nodetest.Node) *sightings {
	b.Helper()
	s := &sightings{of: map[string]time.Time{}}
	folder, err := notice.Open(func(name string) { s.see(filepath.Base(name)) }, func() {})
	if err == nil {
		err = folder.Watch(filepath.Join(n.StateDir(), "store"))
	}
	if err != nil {
		b.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = folder.Run(b.Context())
	}()
	b.Cleanup(func() {
		folder.Close()
		<-ended
	})
	return s
}

// reserveAll reserves volumes, and waits until all are there.
func reserveAll(w *nodetest.World, n *nodetest.Node, volumes int) []*workload.Reservation {
	w.Helper()
	var all []*workload.Reservation
	for range volumes {
		all = append(all, w.Reserve(n, time.Hour))
	}
	for _, r := range all {
		w.Result(r, workload.StateOK)
	}
	return all
}

// BenchmarkNodeLooks measures a node with 500 volumes, a full history and three watchers: its memory, how soon a watcher sees a reservation whose
// record is durable, and how long the whole command croft get takes.
func BenchmarkNodeLooks(b *testing.B) {
	const volumes, watchers, pushes, commands = 500, 3, 40, 30
	for b.Loop() {
		w, n := wholeNode(b)
		c := looksAt(b, n)
		kept := 0
		for kept < historySize {
			all := reserveAll(w, n, volumes)
			if kept == 0 {
				getWorkloads(b, w, n, volumes, commands)
			}
			for _, r := range all {
				w.Delete(r)
			}
			for _, r := range all {
				w.Result(r, workload.StateDeleted)
			}
			events, err := safe.StateListAll[*work.Event](b.Context(), c)
			if err != nil {
				b.Fatal(err)
			}
			if events.Len() <= kept && kept > 0 {
				break // as many as one user may have
			}
			kept = events.Len()
		}
		reserveAll(w, n, volumes)
		var all []*sightings
		for range watchers {
			all = append(all, watch(b, n))
		}
		memory := anonymousFor(b, n.PID(), 90, time.Second) // from the burst that made them on
		first := memory[0]
		slices.Sort(memory)
		median := quantile(memory, 0.5)
		report(b, fmt.Sprintf("agent memory, %d workloads, %d events, %d watchers (RssAnon)", volumes, kept, watchers), "<= 80 MB",
			fmt.Sprintf("%.1f MB (%.1f MB at first, p90 %.1f MB)", median, first, quantile(memory, 0.9)), median/80)
		seen(b, w, n, all, pushes)
	}
}

// getWorkloads measures croft get as a user runs it.
func getWorkloads(b *testing.B, w *nodetest.World, n *nodetest.Node, least, commands int) {
	b.Helper()
	var took []time.Duration
	for range commands {
		began := time.Now()
		out, err := exec.CommandContext(b.Context(), w.Croft, "get", "workloads", "--state-socket", filepath.Join(n.RunDir(), "state.sock")).Output()
		took = append(took, time.Since(began))
		if lines := strings.Count(string(out), "\n"); err != nil || lines < least {
			b.Fatalf("%d lines: %v", lines, err)
		}
	}
	slices.Sort(took)
	p50 := quantile(took, 0.5)
	report(b, fmt.Sprintf("croft get of %d workloads, the whole command", least), "<= 150 ms", fmt.Sprintf("p50 %.0f ms, slowest %.0f ms", ms(p50), ms(took[len(took)-1])), ms(p50)/150)
}

// seen measures from when the record of a new reservation has its name until a watcher has the workload.
func seen(b *testing.B, w *nodetest.World, n *nodetest.Node, all []*sightings, pushes int) {
	b.Helper()
	durable := records(b, n)
	var took []time.Duration
	for range pushes {
		r := w.Reserve(n, time.Hour)
		w.Result(r, workload.StateOK)
		for _, each := range all {
			w.Until(nodetest.Soon, "a watcher sees "+r.ID, func() bool { return !each.first(r.ID).IsZero() && !durable.first(r.ID).IsZero() })
			took = append(took, each.first(r.ID).Sub(durable.first(r.ID)))
		}
	}
	slices.Sort(took)
	p99 := quantile(took, 0.99)
	report(b, "durable to seen by a watcher, p99", "<= 50 ms", fmt.Sprintf("%.1f ms (p50 %.1f ms)", ms(p99), ms(quantile(took, 0.5))), ms(p99)/50)
}

// BenchmarkBack measures from when somebody takes a thing away under the node, of which the kernel or containerd tells, until the node has it back and shows
// that: of 25 networks the bridges or the rules, 25 containers or their mounts, three volumes, each once, and a veth. What goes again and
// again in the same way is left alone for a while. Then it measures the same of what nobody tells.
func BenchmarkBack(b *testing.B) {
	for b.Loop() {
		i, n := boxes(b)
		things := toldThings(b, i, n)
		c := looksAt(b, n)
		var all []time.Duration
		kinds := map[string][]time.Duration{}
		for _, one := range things {
			took := back(b, i, c, one)
			all = append(all, took)
			kinds[one.what] = append(kinds[one.what], took)
		}
		slices.Sort(all)
		var medians []string
		for _, what := range slices.Sorted(maps.Keys(kinds)) {
			slices.Sort(kinds[what])
			medians = append(medians, fmt.Sprintf("%.0f ms %s", ms(quantile(kinds[what], 0.5)), what))
		}
		p95 := quantile(all, 0.95)
		report(b, fmt.Sprintf("gone under the node to back, p95 of %d", len(all)), "<= 2 s",
			fmt.Sprintf("%.0f ms (p50 %s)", ms(p95), strings.Join(medians, ", ")), p95.Seconds()/2)
		backUntold(b, i, n)
	}
}

// taken is a thing that somebody takes away from a workload.
type taken struct {
	what, of string
	take     func()
}

// toldThings are things of workloads of their own, of which the kernel or containerd tells when somebody takes them away.
func toldThings(b *testing.B, i *nodetest.Internet, n *nodetest.Node) []taken {
	b.Helper()
	const each, volumes = 25, 3 // there is room for few
	var all []*workload.Reservation
	for k := range each {
		all = append(all, i.Push(box(i, n, k)), i.Push(empty(i, n, 100+k)))
	}
	for range volumes {
		all = append(all, i.Reserve(n, time.Hour))
	}
	for _, r := range all {
		i.Result(r, workload.StateOK)
	}
	run := func(namespace string, args ...string) func() {
		return func() {
			if out, err := nodetest.Command(namespace, args...); err != nil {
				b.Fatalf("%v: %s", err, out)
			}
		}
	}
	var out []taken
	for k, network := range n.Status().Networks {
		switch {
		case network.Name == "net1": // the containers': a veth is the network's, and would be left alone for a while if many went
			out = append(out, taken{"a veth", network.Label, func() { n.Unplug(all[0]) }})
		case k%2 == 0:
			out = append(out, taken{"a bridge", network.Label, run(network.Namespace, "ip", "link", "del", "br0")})
		default:
			out = append(out, taken{"rules", network.Label, run(network.Namespace, "nft", "flush", "ruleset")})
		}
	}
	for k := range each {
		r := all[2*k]
		if k%2 == 0 {
			out = append(out, taken{"a container", r.ID, func() { n.DeleteContainer(r) }})
		} else {
			out = append(out, taken{"a mount", r.ID, func() { n.Unpin(r) }})
		}
	}
	for _, r := range all[2*each:] {
		out = append(out, taken{"a volume", r.ID, func() {
			if text, err := exec.CommandContext(b.Context(), "btrfs", "subvolume", "delete", n.VolumePath(r)).CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, text)
			}
		}})
	}
	return out
}

// back takes a thing of a workload away, and returns after how long it was restored.
func back(b *testing.B, i *nodetest.Internet, c *statesocket.Client, one taken) time.Duration {
	b.Helper()
	restored := func() int {
		is, err := safe.StateGetByID[*work.Workload](b.Context(), c, one.of)
		if err != nil {
			b.Fatal(err)
		}
		return is.TypedSpec().Restored
	}
	before := restored()
	began := time.Now()
	one.take()
	var took time.Duration
	i.Until(nodetest.Soon, one.what+" of "+one.of+" is back", func() bool {
		took = time.Since(began)
		return restored() > before
	})
	time.Sleep(time.Second) // what its repair has changed is told, too
	return took
}
