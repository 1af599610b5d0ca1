//go:build boot && long

package e2e_test

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/croft-edge/croft/bootstrap/node/e2e/fscheck"
	"github.com/croft-edge/croft/pkg/workload"
)

const (
	cuts = 20
	// shortestOn and longestOn are how long a machine is on between two power cuts: the shortest ends within its boot.
	shortestOn, longestOn = 3 * time.Second, 70 * time.Second
	// miscounted is by how many bytes a power cut may have a qgroup miscount.
	miscounted = 4 << 10
	// storageKept are the most volumes and namespaces that flow's storage doesn't delete, storageMost those that may be there at a time.
	storageKept, storageMost = 5, 30
)

// flow pushes reservations and deletes some of them, all the time.
type flow struct {
	s *site
	p *place

	mu sync.Mutex
	// wanted are those that should be there in the end, deleted the others.
	wanted, deleted []*workload.Reservation
}

// storage pushes reservations for volumes and zdb namespaces. Most are deleted some time later, some of them before the node has seen them. A node has
// room for few, and is right to refuse what it has no room for: none is pushed while too many aren't gone yet.
func (f *flow) storage(ctx context.Context) {
	tick := time.NewTicker(3 * time.Second)
	defer tick.Stop()
	var kept, going []*workload.Reservation
	for i := 1; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		going = slices.DeleteFunc(going, func(r *workload.Reservation) bool { return f.is(ctx, r, workload.StateDeleted) })
		if len(kept)+len(going) >= storageMost {
			continue
		}
		if i++; i%3 == 0 {
			kept = append(kept, f.push(f.p.namespace()))
		} else {
			kept = append(kept, f.push(f.s.volume(f.p.n, lasting)))
		}
		if len(kept) > storageKept {
			f.drop(kept[0])
			kept, going = kept[1:], append(going, kept[0])
		}
	}
}

// containers pushes one reservation for a container after the other: each is deleted once it runs, but for the last. The node's
// processors are enough for one beside the place's.
func (f *flow) containers(ctx context.Context) {
	for {
		r := f.push(f.p.server(f.p.spareIP))
		if !f.becomes(ctx, r, workload.StateOK) {
			return
		}
		f.drop(r)
		if !f.becomes(ctx, r, workload.StateDeleted) {
			return
		}
	}
}

// becomes waits until a reservation's result has a state; it is false when the flow ends before.
func (f *flow) becomes(ctx context.Context, r *workload.Reservation, state workload.State) bool {
	for !f.is(ctx, r, state) {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(500 * time.Millisecond):
		}
	}
	return true
}

// is reports whether a reservation's result has a state now.
func (f *flow) is(ctx context.Context, r *workload.Reservation, state workload.State) bool {
	got, err := f.s.Client.Get(ctx, r.ID)
	return err == nil && got.Result != nil && got.Result.State == state
}

func (f *flow) push(r *workload.Reservation) *workload.Reservation {
	f.mu.Lock()
	defer f.mu.Unlock()
	r = f.s.Push(r)
	f.wanted = append(f.wanted, r)
	return r
}

func (f *flow) drop(r *workload.Reservation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wanted = slices.DeleteFunc(f.wanted, func(other *workload.Reservation) bool { return other.ID == r.ID })
	f.deleted = append(f.deleted, r)
	f.s.Delete(r)
}

// counts are how many workloads of each type a node has that carries out the wanted reservations and the place's.
func (f *flow) counts() map[string]int64 {
	out := map[string]int64{}
	for _, r := range append(f.p.all(), f.wanted...) {
		out[string(r.Type)]++
	}
	return out
}

// take holds that each wanted zdb namespace takes a key, and gives it back.
func (f *flow) take() {
	f.s.Helper()
	for _, r := range f.wanted {
		if r.Type != workload.TypeZDB {
			continue
		}
		conn, err := f.p.openNamespace(r)
		if err != nil {
			f.s.Errorf("namespace %s can't be opened: %v", r.ID, err)
			continue
		}
		_, set := conn.Do("SET", "after", r.ID)
		if got, err := redis.String(conn.Do("GET", "after")); set != nil || err != nil || got != r.ID {
			f.s.Errorf("namespace %s has %q (%v, %v), want %q", r.ID, got, set, err, r.ID)
		}
		conn.Close()
	}
}

// TestPowerCuts cuts the power at random moments while reservations flow. In the end all is as it was asked for.
func TestPowerCuts(t *testing.T) {
	s := newSite(t)
	n := s.node("n1", "203.0.113.11", options{boot: direct(t)})
	n.m.PowerOn()
	n.register()
	u := newTenant(s, n)
	p := u.places[0]
	p.answers()
	p.note("before all power cuts")
	f := &flow{s: s, p: p}
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	defer wait.Wait()
	defer cancel()
	wait.Go(func() { f.storage(ctx) })
	wait.Go(func() { f.containers(ctx) })
	for cut := range cuts {
		on := shortestOn + time.Duration(s.random.Int64N(int64(longestOn-shortestOn)))
		<-time.After(on)
		t.Logf("power cut %d of %d, %s after the machine was switched on", cut+1, cuts, on.Round(time.Second))
		n.m.Cut(s.random)
		n.m.PowerOn()
	}
	cancel()
	wait.Wait()
	n.agent()
	p.answers()
	p.noted("before all power cuts")
	for _, r := range append(p.all(), f.wanted...) {
		s.Result(r, workload.StateOK)
	}
	for _, r := range f.deleted {
		s.Result(r, workload.StateDeleted)
	}
	n.settled(f.counts())
	f.take()
	if counts := f.counts(); counts[string(workload.TypeContainer)] > 1 {
		s.until("the last container answers", func() error {
			_, err := s.Do(s.laptop.Path(), http.MethodGet, page(p.spareIP, "/"), "", 10*time.Second)
			return err
		})
	}
	if is, err := n.hand.status(); err != nil || len(is.Store.Quarantined) > 0 {
		t.Errorf("in quarantine is %q (%v)", is.Store.Quarantined, err)
	}
	if len(f.wanted)+len(f.deleted) < 2*cuts {
		t.Errorf("only %d reservations flowed through the power cuts", len(f.wanted)+len(f.deleted))
	}
	t.Logf("%d reservations, %d of them deleted; in the end the node has %v", len(f.wanted)+len(f.deleted), len(f.deleted), f.counts())
	n.m.PowerButton(patience)
	n.m.Sync()
	for _, disk := range n.disks {
		counts, err := fscheck.Btrfs(t.Context(), disk, cuts*miscounted)
		if err != nil {
			t.Error(err)
		}
		for _, line := range counts {
			t.Logf("the disk %s: %s", disk, line)
		}
	}
	n.untouched()
}
