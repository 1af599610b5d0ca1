package container_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner/reference"
)

// byHash is the data of a container that names its two volumes and its network by hash.
func byHash(first, second, network workload.Hash) string {
	data := aContainer(fmt.Sprintf(`,"mounts":[{"volume_id":"1-1","volume_hash":%q,"mountpoint":"/a"},{"volume_id":"1-2","volume_hash":%q,"mountpoint":"/b"}]`,
		first.Hex(), second.Hex()))
	return strings.Replace(data, `"network_id":"net"`, fmt.Sprintf(`"network_id":"net","network_hash":%q`, network.Hex()), 1)
}

// accepted records p as the presence of the network's reservation of that hash.
func (f *world) accepted(name string, hash workload.Hash, p reference.Presence) {
	f.known[name+" "+hash.Hex()] = p
}

func TestReferencesByHash(t *testing.T) {
	const net = 8
	for name, c := range map[string]struct {
		data  string
		world func(f *world)
		kind  node.Kind
		want  []string
	}{
		"all are what was meant": {byHash(hashOf(1), hashOf(2), hashOf(net)), nil, "", nil},
		"two IDs are swapped": {byHash(hashOf(1), hashOf(2), hashOf(net)), func(f *world) {
			f.owners["1-1"], f.owners["1-2"] = f.owners["1-2"], f.owners["1-1"]
		}, node.Refused, []string{"data.mounts[0].volume_hash is " + hashOf(1).Hex(), "must be the hash of the reservation of volume 1-1, " + hashOf(2).Hex()}},
		"the second is another one": {byHash(hashOf(1), hashOf(3), hashOf(net)), nil, node.Refused,
			[]string{"data.mounts[1].volume_hash is " + hashOf(3).Hex(), "volume 1-2, " + hashOf(2).Hex()}},
		"the node's records know no hash": {byHash(hashOf(1), hashOf(2), hashOf(net)), func(f *world) {
			f.owners["1-1"] = reference.Owner{User: f.user, Type: workload.TypeVolume}
		}, node.Refused, []string{"data.mounts[0].volume_hash"}},
		"the right hash of somebody else's volume": {byHash(hashOf(1), hashOf(2), hashOf(net)), func(f *world) {
			f.owners["1-2"] = reference.Owner{User: "somebody else", Type: workload.TypeVolume, Hash: hashOf(2)}
		}, node.Refused, []string{`data.mounts[1].volume_id is "1-2", must be a volume of yours on this node`}},
		"the network's reservation was never accepted": {byHash(hashOf(1), hashOf(2), hashOf(7)), nil, node.Refused,
			[]string{"data.network.network_hash is " + hashOf(7).Hex(), `must be the hash of a reservation of your network "net" that this node has accepted, or be left out`}},
		"the network's update is coming": {byHash(hashOf(1), hashOf(2), hashOf(7)), func(f *world) { f.accepted("net", hashOf(7), reference.Coming) },
			node.Transient, []string{`network "net" doesn't match reservation ` + hashOf(7).Hex()}},
		"another network's reservation": {byHash(hashOf(1), hashOf(2), hashOf(7)), func(f *world) { f.accepted("other", hashOf(7), reference.Accepted) },
			node.Refused, []string{"data.network.network_hash"}},
		"there is no network at all": {byHash(hashOf(1), hashOf(2), hashOf(net)), func(f *world) { clear(f.known); f.removeNetwork() },
			node.Refused, []string{`data.network.network_id is "net"`}},
		"the records can't be read": {byHash(hashOf(1), hashOf(2), hashOf(net)), func(f *world) { f.unread["has network"] = node.Errorf(node.Internal, "no disk") },
			node.Internal, []string{"no disk"}},
		"the owner can't be read": {byHash(hashOf(1), hashOf(2), hashOf(net)), func(f *world) { f.unread["owner"] = node.Errorf(node.Internal, "no disk") },
			node.Internal, []string{"no disk"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newWorld(t)
			f.accepted("net", hashOf(net), reference.Accepted)
			if c.world != nil {
				c.world(f)
			}
			ahead := newWorld(t)
			ahead.accepted("net", hashOf(net), reference.Accepted)
			if c.world != nil {
				c.world(ahead)
			}
			// Prepare refuses, before fetching the image, exactly what Provision will refuse.
			_, err := ahead.provisioner().Prepare(context.Background(), ahead.reservation(c.data))
			if refused := c.kind == node.Refused; refused != (err != nil) || refused && node.KindOf(err) != c.kind || refused == (len(ahead.images()) > 0) {
				t.Errorf("prepared, %s: %v, images are %v", node.KindOf(err), err, ahead.images())
			}
			_, err = f.provisioner().Provision(context.Background(), f.reservation(c.data))
			if c.kind == "" {
				if err != nil || len(f.boxes()["2-1"].Mounts) != 2 {
					t.Fatalf("%v, mounts are %+v", err, f.boxes()["2-1"].Mounts)
				}
				return
			}
			if err == nil || node.KindOf(err) != c.kind {
				t.Fatalf("error is %s: %v, want %s", node.KindOf(err), err, c.kind)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error is %v, want one with %q", err, want)
				}
			}
			if left := f.left(); len(left) != 0 {
				t.Errorf("left on the node: %v", left)
			}
		})
	}
}

// The node may forget the network's reservation that a container was made with, once it
// was updated and has ended. The container is still made again after a reboot, if any
// part of it is left.
func TestAForgottenNetworkReservationEndsNoContainer(t *testing.T) {
	for name, loses := range map[string]func(f *world){
		"all is there":         func(*world) {},
		"the container is not": func(f *world) { f.Containers.Remove("2-1") },
		"its layer is not":     func(f *world) { f.Storage.Lose("2-1.layer") },
	} {
		f := newWorld(t)
		f.accepted("net", hashOf(8), reference.Accepted)
		r := f.reservation(byHash(hashOf(1), hashOf(2), hashOf(8)))
		if _, err := f.provisioner().Provision(context.Background(), r); err != nil {
			t.Fatal(err)
		}
		loses(f)
		f.accepted("net", hashOf(8), reference.Absent)
		if _, err := f.provisioner().Provision(context.Background(), r); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
