package provision_test

import (
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/admit"
	"github.com/croft-edge/croft/provision/provisioner"
)

// TestNetworksAreRefusedBeyondTheirMemory: all users share the tunnels' carrier, so a
// network that doesn't fit is refused with a clear error, and existing ones stay. An update
// in place takes over its network's room, however often; a deletion frees it.
func TestNetworksAreRefusedBeyondTheirMemory(t *testing.T) {
	inWorld(t, func(w *world) {
		w.provisioners = map[workload.Type]provisioner.Provisioner{workload.TypeNetwork: &watchedProvisioner{}}
		w.admission = roomFor(t, provisioner.Demand{Tunnels: uint64(admit.TunnelMemory.Total)}, admit.Defaults())
	}, func(t *testing.T, w *world, n *incarnation) {
		a, b, c := w.network("a"), w.network("b"), w.network("c")
		push := func(name string) string {
			return w.explorer.push(w.reserve(workload.TypeNetwork, w.networkData(name), yearLong))
		}
		refused := w.answered(push("d"), workload.StateError)
		if !strings.Contains(refused.Error, "too much memory for tunnels for one user: need 10 MiB, has 30 MiB, at most 32 MiB on this node") {
			t.Errorf("refused by %q", refused.Error)
		}
		for range 10 {
			time.Sleep(time.Second)
			c = w.network("c")
		}
		for _, id := range []string{a, b, c} {
			if s := n.status(t, id); s.State != workload.StateOK {
				t.Errorf("%s is %+v", id, s)
			}
		}
		w.remove(a)
		w.answered(a, workload.StateDeleted)
		w.network("d")
	})
}
