package provision_test

import (
	"testing"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/provisioner/reference"
	"github.com/croft-edge/croft/provision/seed"
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
		wantPresence(t, owners, user, "net", workload.Hash{}, reference.Accepted)
		wantPresence(t, owners, "somebody else", "net", workload.Hash{}, reference.Absent)
		for _, id := range []string{here, net} {
			w.remove(id)
			w.answered(id, workload.StateDeleted)
		}
		wantPresence(t, owners, user, "net", workload.Hash{}, reference.Absent)
		if owner(here) != "" {
			t.Error("what was deleted has an owner")
		}
	})
}

func wantPresence(t *testing.T, owners *provision.Owners, user, name string, hash workload.Hash, want reference.Presence) {
	t.Helper()
	if got, err := owners.HasNetwork(user, name, hash); got != want || err != nil {
		t.Errorf("network %q by hash %s: presence is %d, %v, want %d", name, hash.Hex(), got, err, want)
	}
}

// A reference by hash holds for as long as the node remembers the reservation, also past
// the network's update or deletion. Another user's reservation, another network's or
// another type's never counts.
func TestNetworksAreKnownByHash(t *testing.T) {
	prepare := func(w *world) {
		w.provisioners = map[workload.Type]provisioner.Provisioner{workload.TypeNetwork: &fakeProvisioner{}, workload.TypeVolume: &fakeProvisioner{}}
	}
	inWorld(t, prepare, func(t *testing.T, w *world, _ *incarnation) {
		owners, user := provision.NewOwners(w.records), w.user.ID()
		reserved := func(name string) (string, workload.Hash) {
			t.Helper()
			r := w.reserve(workload.TypeNetwork, w.networkData(name), nil)
			id := w.explorer.push(r)
			w.answered(id, workload.StateOK)
			return id, hashOf(t, r)
		}
		_, first := reserved("net")
		newest, second := reserved("net")
		_, other := reserved("other")
		for _, hash := range []workload.Hash{first, second} {
			wantPresence(t, owners, user, "net", hash, reference.Accepted)
			wantPresence(t, owners, user, "other", hash, reference.Absent)
			wantPresence(t, owners, "somebody else", "net", hash, reference.Absent)
		}
		wantPresence(t, owners, user, "net", other, reference.Absent)
		wantPresence(t, owners, user, "net", workload.Hash{1}, reference.Absent)
		volume := w.reserve(workload.TypeVolume, `{"size":1,"type":"SSD"}`, nil)
		id := w.explorer.push(volume)
		w.answered(id, workload.StateOK)
		wantPresence(t, owners, user, "net", hashOf(t, volume), reference.Absent)
		want := reference.Owner{User: user, Type: workload.TypeVolume, Hash: hashOf(t, volume)}
		if got, err := owners.Owner(id); err != nil || got != want {
			t.Errorf("owner of %s is %+v, %v", id, got, err)
		}
		w.remove(newest)
		w.answered(newest, workload.StateDeleted)
		wantPresence(t, owners, user, "net", first, reference.Accepted)
		wantPresence(t, owners, user, "net", workload.Hash{}, reference.Absent)
	})
}

func hashOf(t *testing.T, r *workload.Reservation) workload.Hash {
	t.Helper()
	h, err := r.Hash()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// fixedOwners is an OwnerCache such as a program using the published API may put into a context.
type fixedOwners map[string]string

func (f fixedOwners) OwnerOf(id string) (string, error) {
	if user, ok := f[id]; ok {
		return user, nil
	}
	return "", node.Errorf(node.NotExist, "the owner of reservation %s isn't known", id)
}

// The published OwnerCache tells only users: type and hash come from the node's own records.
func TestAContextsOwnersHaveTheNodesHashes(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, _ *incarnation) {
		volume := w.reserve(workload.TypeVolume, `{"size":1,"type":"SSD"}`, nil)
		id := w.explorer.push(volume)
		w.answered(id, workload.StateOK)
		ctx := provision.WithOwnerCache(t.Context(), fixedOwners{id: w.user.ID(), "77-1": "alice"})
		owners := seed.OwnersFor(ctx, w.records)
		for id, want := range map[string]reference.Owner{
			id:     {User: w.user.ID(), Type: workload.TypeVolume, Hash: hashOf(t, volume)},
			"77-1": {User: "alice", Type: workload.TypeVolume},
		} {
			if got, err := owners.Owner(id); err != nil || got != want {
				t.Errorf("owner of %s is %+v, %v, want %+v", id, got, err, want)
			}
		}
		if _, err := owners.Owner("78-1"); node.KindOf(err) != node.NotExist {
			t.Errorf("nobody's has an owner: %v", err)
		}
		if got, err := seed.OwnersFor(t.Context(), w.records).Owner("77-1"); node.KindOf(err) != node.NotExist {
			t.Errorf("without a cache 77-1 is of %+v, %v", got, err)
		}
	})
}
