package provision_test

import (
	"testing"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision"
	"github.com/croft-edge/croft/provision/provisioner"
)

func TestOwnersAreReadFromTheNodesOwnRecords(t *testing.T) {
	f := newFetching()
	prepare := func(w *world) {
		w.provisioners = map[workload.Type]provisioner.Provisioner{workload.TypeContainer: f, workload.TypeNetwork: &fakeProvisioner{}}
	}
	inWorld(t, prepare, func(t *testing.T, w *world, _ *incarnation) {
		owners := provision.NewOwners(w.records)
		owner := func(id string) string {
			t.Helper()
			user, err := owners.OwnerOf(id)
			if err != nil && node.KindOf(err) != node.NotExist {
				t.Fatalf("owner of %s: %v", id, err)
			}
			return user
		}
		here, coming := w.volume(nil), w.container()
		w.answered(here, workload.StateOK)
		w.until("it is asked for", func() bool { return f.times(coming) > 0 })
		refused := w.explorer.push(w.reserve(workload.TypeVolume, `{"size":0,"type":"SSD"}`, nil))
		w.answered(refused, workload.StateError)
		net := w.explorer.push(w.reserve(workload.TypeNetwork, w.networkData("net"), nil))
		w.answered(net, workload.StateOK)
		user := w.user.ID()
		if owner(here) != user || owner(coming) != user || owner(refused) != "" || owner("77-1") != "" {
			t.Errorf("owners are %q, %q, %q, %q", owner(here), owner(coming), owner(refused), owner("77-1"))
		}
		if ok, err := owners.HasNetwork(user, "net"); !ok || err != nil {
			t.Errorf("network: %t, %v", ok, err)
		}
		if ok, _ := owners.HasNetwork("somebody else", "net"); ok {
			t.Error("somebody else has the network")
		}
		for _, id := range []string{here, net} {
			w.remove(id)
			w.answered(id, workload.StateDeleted)
		}
		if ok, _ := owners.HasNetwork(user, "net"); ok || owner(here) != "" {
			t.Error("what was deleted has an owner")
		}
	})
}
