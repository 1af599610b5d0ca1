package network_test

import (
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/node/conformance"
)

// TestTheCarrierOfManyIsKilled: the one that comes after it has the tunnels and names of
// all networks again, of every user.
func TestTheCarrierOfManyIsKilled(t *testing.T) {
	const networks = 10
	h := withNetworks(t, networks)
	before := h.carrier(t)
	if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	h.allWhole(t, networks, before)
}

// TestTheCarrierIsKilledUnderCallers: a caller may notice the end of a carrier before the module does, and
// connect its successor. The networks come back all the same.
func TestTheCarrierIsKilledUnderCallers(t *testing.T) {
	const networks = 3
	h := withNetworks(t, networks)
	stop := make(chan struct{})
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_, _ = h.networks.List(t.Context()) // allWhole judges the answers
				}
			}
		})
	}
	defer callers.Wait()
	defer close(stop)
	for range 2 {
		before := h.carrier(t)
		if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		h.allWhole(t, networks, before)
	}
}

// withNetworks is a module with that many networks, of two users.
func withNetworks(t *testing.T, networks int) household {
	t.Helper()
	f := newFixture(t)
	for i := range networks {
		spec := conformance.NetworkSpec(t, fmt.Sprint("net", i), fmt.Sprintf("10.1.%d.0/24", i+1), port(t))
		spec.User = fmt.Sprint("user", i%2)
		if _, err := f.networks.Create(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
	}
	return household{fixture: f}
}

// allWhole waits until that many networks are whole, and the carrier isn't process before any more.
func (h *household) allWhole(t *testing.T, networks, before int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		list, err := h.networks.List(t.Context())
		whole := 0
		for _, n := range list {
			if n.Drift == "" && n.Backend != "" {
				whole++
			}
		}
		if err == nil && whole == networks && h.carrier(t) != before {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d are whole, %v", whole, networks, err)
		}
	}
}
