package network_test

import (
	"fmt"
	"os"
	"path/filepath"
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

// TestTheSuccessorIsKilledToo: carriers end while they are given the networks.
func TestTheSuccessorIsKilledToo(t *testing.T) {
	const networks = 5
	h := withNetworks(t, networks)
	before := h.carrier(t)
	for range 4 {
		if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		killed := before
		for before == killed {
			before = h.carrier(t)
		}
	}
	h.allWhole(t, networks, 0)
}

// TestAClosedModuleWatchesNoCarrier: the carrier goes on, and nothing of this process is left at it.
func TestAClosedModuleWatchesNoCarrier(t *testing.T) {
	h := withNetworks(t, 1)
	watches := func() (n int) {
		files, err := filepath.Glob("/proc/self/fd/*")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if to, _ := os.Readlink(file); to == "anon_inode:[pidfd]" {
				n++
			}
		}
		return n
	}
	open := watches()
	if open == 0 {
		t.Fatal("an open module watches no carrier")
	}
	if err := h.mod.Close(); err != nil {
		t.Fatal(err)
	}
	if left := watches(); left >= open {
		t.Errorf("%d of %d watches are left, want fewer", left, open)
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
