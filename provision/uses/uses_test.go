package uses_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/lifecycle"
	"github.com/croft-edge/croft/provision/store"
	"github.com/croft-edge/croft/provision/uses"
)

// record makes a record of a user's volume, network or container in a phase. A container mounts volume 1-1 and is in network net.
func record(id, user string, kind workload.Type, phase lifecycle.Phase) store.Record {
	data := map[workload.Type]string{
		workload.TypeVolume:  `{"size":1,"type":"SSD"}`,
		workload.TypeNetwork: `{"name":"net"}`,
		workload.TypeContainer: `{"flist":"docker://example.com/a","mounts":[{"volume_id":"1-1","mountpoint":"/data"}],` +
			`"network":{"network_id":"net","ips":["10.1.1.2"]},"capacity":{"cpu":1,"memory":64}}`,
	}[kind]
	r := &workload.Reservation{ID: id, User: user, Type: kind, Data: []byte(data), Created: time.Unix(1, 0)}
	rec := store.Record{Reservation: r, Phase: phase, Begun: true, Hash: workload.Hash{byte(len(id)), id[0], user[0], kind[0]}}
	rec.Name, _ = lifecycle.NameOf(r)
	return rec
}

// TestWhoUsesWhat: a workload of the same user is in use from the intent of a container on, until nothing of that runs.
func TestWhoUsesWhat(t *testing.T) {
	for phase, holds := range map[lifecycle.Phase]bool{
		lifecycle.Waiting: false, lifecycle.Fetching: false, lifecycle.Retry: false, lifecycle.Held: false,
		lifecycle.Intent: true, lifecycle.Deployed: true, lifecycle.Replaced: true, lifecycle.Stopping: true, lifecycle.Leaving: true, lifecycle.Blocked: true,
		lifecycle.Ended: false, lifecycle.Failed: false, lifecycle.Refused: false,
	} {
		u := uses.New()
		volume, network, other := record("1-1", "me", workload.TypeVolume, lifecycle.Deployed), record("2-1", "me", workload.TypeNetwork, lifecycle.Deployed),
			record("1-1", "you", workload.TypeVolume, lifecycle.Deployed)
		u.Set(volume)
		u.Set(network)
		u.Set(record("5-1", "me", workload.TypeContainer, phase))
		for _, rec := range []store.Record{volume, network} {
			if got := u.InUse(rec); got != holds || slices.Equal(u.UsersOf(rec), []string{"container/5-1"}) != holds {
				t.Errorf("%s of a container that is %s: in use %t by %v", rec.Reservation.Type, phase, got, u.UsersOf(rec))
			}
		}
		u = uses.New()
		u.Set(other)
		u.Set(record("5-1", "me", workload.TypeContainer, phase))
		if u.InUse(other) {
			t.Errorf("another user's volume is in use")
		}
	}
}

// TestANetworkOfTwoRecordsMayGo: the users of a name stay with the other record of it.
func TestANetworkOfTwoRecordsMayGo(t *testing.T) {
	u := uses.New()
	first, second := record("2-1", "me", workload.TypeNetwork, lifecycle.Replaced), record("3-1", "me", workload.TypeNetwork, lifecycle.Leaving)
	u.Set(first)
	u.Set(second)
	u.Set(record("5-1", "me", workload.TypeContainer, lifecycle.Deployed))
	if u.InUse(second) || u.InUse(first) {
		t.Error("neither keeps the users while the other does")
	}
	u.Drop("2-1")
	if !u.InUse(second) {
		t.Error("the last of a name doesn't keep its users")
	}
}

// TestUsesAreWhatTheRecordsSay: after any sequence of changes, who uses what is what the present records say, those whose users
// changed were named, and nothing is left of records that are gone.
func TestUsesAreWhatTheRecordsSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := uses.New()
		now := map[string]store.Record{}
		kinds := []workload.Type{workload.TypeVolume, workload.TypeNetwork, workload.TypeContainer}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			n := rapid.IntRange(1, 6).Draw(t, "n")
			kind := kinds[n%3]
			id := fmt.Sprintf("%d-1", n)
			if kind == workload.TypeVolume || rapid.IntRange(0, 3).Draw(t, "a volume's ID") == 0 {
				id = "1-1"
			}
			before := map[string][]string{}
			for id, rec := range now {
				before[id] = u.UsersOf(rec)
			}
			var changed []string
			if rapid.IntRange(0, 4).Draw(t, "drop") == 0 {
				changed = u.Drop(id)
				delete(now, id)
			} else {
				rec := record(id, "me", kind, rapid.SampledFrom(lifecycle.Phases()).Draw(t, "phase"))
				changed = u.Set(rec)
				if now[id] = rec; rec.Tombstone() {
					delete(now, id)
				}
			}
			for other, rec := range now {
				var want []string
				for _, user := range now {
					if rec.Reservation.Type != workload.TypeContainer && user.Reservation.Type == workload.TypeContainer && uses.Holds(user) {
						want = append(want, uses.Name(user))
					}
				}
				slices.Sort(want)
				got := u.UsersOf(rec)
				if !slices.Equal(got, want) {
					t.Fatalf("%s is used by %v, want %v", other, got, want)
				}
				if was, there := before[other]; there && other != id && !slices.Equal(was, got) && !slices.Contains(changed, other) {
					t.Fatalf("the users of %s changed from %v to %v, and only %v were named", other, was, got, changed)
				}
			}
		}
		for id := range now {
			u.Drop(id)
		}
		if u.Size() != 0 {
			t.Fatalf("%d entries are left", u.Size())
		}
	})
}
