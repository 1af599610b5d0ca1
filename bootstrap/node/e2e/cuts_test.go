//go:build boot && long

package e2e_test

import (
	"context"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/workload"
)

const (
	cuts = 20
	// shortestOn and longestOn are how long a machine is on between two power cuts: the shortest ends within its boot.
	shortestOn, longestOn = 3 * time.Second, 70 * time.Second
)

// flow pushes reservations for volumes and deletes some of them, all the time.
type flow struct {
	s *site
	n *node

	mu sync.Mutex
	// wanted are those that should be there in the end, deleted the others.
	wanted, deleted []*workload.Reservation
}

func (f *flow) run(ctx context.Context) {
	tick := time.NewTicker(3 * time.Second)
	defer tick.Stop()
	for i := 1; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		r := f.s.Push(f.s.volume(f.n, lasting))
		f.mu.Lock()
		f.wanted = append(f.wanted, r)
		// A node has room for few: most are deleted some time later.
		if len(f.wanted) > 6 {
			old := f.wanted[0]
			f.wanted, f.deleted = f.wanted[1:], append(f.deleted, old)
			f.s.Delete(old)
		}
		f.mu.Unlock()
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
	f := &flow{s: s, n: n}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wait sync.WaitGroup
	wait.Go(func() { f.run(ctx) })
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
	n.settled(map[string]int64{"network": 1, "volume": 1 + int64(len(f.wanted)), "container": 1, "zdb": 1})
	if is, err := n.hand.status(); err != nil || len(is.Store.Quarantined) > 0 {
		t.Errorf("in quarantine is %q (%v)", is.Store.Quarantined, err)
	}
	t.Logf("%d reservations, %d of them deleted", len(f.wanted)+len(f.deleted), len(f.deleted))
	n.m.PowerButton(patience)
	n.m.Sync()
	for _, disk := range n.disks {
		if out, err := exec.CommandContext(t.Context(), "btrfs", "check", "--readonly", disk).CombinedOutput(); err != nil {
			t.Errorf("the file system of %s isn't clean: %v\n%s", disk, err, out)
		}
	}
	n.untouched()
}
