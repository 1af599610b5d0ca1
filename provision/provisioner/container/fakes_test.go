package container_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/croft-edge/croft/internal/testing/fakenode"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/provisioner/container"
	"github.com/croft-edge/croft/provision/provisioner/reference"
)

var (
	_ provisioner.Provisioner = (*container.Provisioner)(nil)
	_ provisioner.Watched     = (*container.Provisioner)(nil)
	_ provisioner.Preparer    = (*container.Provisioner)(nil)
	_ provisioner.Stopper     = (*container.Provisioner)(nil)
	_ provisioner.Successor   = (*container.Provisioner)(nil)
)

const gib = 1 << 30

// world is a node's modules and its records.
type world struct {
	*fakenode.Node
	t     *testing.T
	stubs fakenode.Stubs
	user  string
	owner sign.KeyPair
	past  provisioner.Past

	owners map[string]reference.Owner
	// known are the user's networks: by name, and by name and hash.
	known map[string]reference.Presence
	// unread are the errors of reading "owner" and "has network".
	unread map[string]error
}

func newWorld(t *testing.T) *world {
	t.Helper()
	user, err := sign.Generate()
	if err != nil {
		t.Fatal(err)
	}
	n := fakenode.New(t, node.Pool{Name: "a", DiskType: workload.SSD, Offered: 100 * gib}, node.Pool{Name: "b", DiskType: workload.HDD, Offered: 100 * gib})
	n.Storage.Put(volumeOf("1-1", 1), volumeOf("9-9", 9), volumeOf("1-2", 2), volumeOf("5-1", 5))
	n.Networks.Put(node.NetworkSpec{ID: networkKey(user.ID(), "net"), User: user.ID(), Name: "net", Subnet: "10.1.1.0/24"})
	n.Networks.SetPublic(netip.MustParsePrefix("2001:db8::/64"))
	n.Images.Offer("docker://example.com/a:1", fakenode.Content{Digest: "sha256:1234"})
	return &world{
		Node: n, t: t, stubs: n.Serve(t), user: user.ID(), owner: user,
		owners: map[string]reference.Owner{
			"1-1": {User: user.ID(), Type: workload.TypeVolume, Hash: hashOf(1)}, "9-9": {User: "somebody else", Type: workload.TypeVolume, Hash: hashOf(9)},
			"1-2": {User: user.ID(), Type: workload.TypeVolume, Hash: hashOf(2)}, "5-1": {User: user.ID(), Type: workload.TypeZDB, Hash: hashOf(5)},
		},
		known: map[string]reference.Presence{"net": reference.Accepted}, unread: map[string]error{},
	}
}

// volumeOf is a file system with that hash of a reservation.
func volumeOf(name string, hash byte) node.Filesystem {
	return node.Filesystem{Name: name, Path: "/pools/a/" + name, Pool: "a", DiskType: workload.SSD, Hash: hashOf(hash).Hex()}
}

// layerOf is the layer of container 2-1, of that hash.
func layerOf(hash string) node.Filesystem {
	return node.Filesystem{Name: "2-1.layer", Pool: "a", DiskType: workload.SSD, Size: gib, Hash: hash}
}

// hashOf is a made-up reservation hash.
func hashOf(n byte) workload.Hash { return workload.Hash{n} }

func networkKey(user, name string) string {
	k := workload.NetworkKey(user, name)
	return fmt.Sprintf("%x", k[:])
}

func (f *world) provisioner() *container.Provisioner {
	return container.New(container.Config{
		Containers: f.stubs.Containers, Images: f.stubs.Images, Networks: f.stubs.Networks, Storage: f.stubs.Storage,
		Identity: f.stubs.Identity, Owners: f, Past: f.past, Layer: gib, Steady: 20 * time.Millisecond,
	})
}

// result is the result of container 2-1 with address 10.1.1.2.
func (f *world) result() string {
	ipv6 := workload.Address6(workload.NetworkPrefix6(f.user, "net"), netip.MustParsePrefix("10.1.1.0/24"), netip.MustParseAddr("10.1.1.2"))
	return fmt.Sprintf(`{"id":"2-1","ipv6":%q,"ipv4":"10.1.1.2","image":"sha256:1234"}`, ipv6)
}

func (f *world) boxes() map[string]node.ContainerSpec { return f.Containers.Specs() }

func (f *world) images() map[string]node.Image { return f.Images.All() }

func (f *world) members() map[string]node.MemberSpec { return f.Networks.Members() }

func (f *world) volumes() map[string]node.Filesystem { return f.Storage.Filesystems() }

// putMember adds member 2-1 of that hash to the user's network.
func (f *world) putMember(hash string) {
	f.Networks.PutMember(node.MemberSpec{Network: networkKey(f.user, "net"), Member: "2-1", Hash: hash})
}

// removeNetwork removes the user's network, which has no members.
func (f *world) removeNetwork() {
	f.t.Helper()
	if err := f.Networks.Delete(networkKey(f.user, "net")); err != nil {
		f.t.Fatal(err)
	}
}

// calls are the methods of the changing calls so far.
func (f *world) calls() (out []string) {
	for _, c := range f.Changes() {
		out = append(out, c.Method)
	}
	return out
}

// mend ends all failures of modules and records.
func (f *world) mend() {
	clear(f.unread)
	for _, method := range f.calls() {
		f.Fail(method, nil)
	}
}

// unready keeps images from being ready.
func (f *world) unready() { f.Images.Hold(&node.Image{Done: 12 << 20, Total: 80 << 20}) }

// left lists the node's containers, layers, places in networks and images.
func (f *world) left() []string {
	out := slices.Collect(maps.Keys(f.boxes()))
	for name := range f.volumes() {
		if _, volume := f.owners[name]; !volume {
			out = append(out, name)
		}
	}
	out = slices.AppendSeq(out, maps.Keys(f.members()))
	out = slices.AppendSeq(out, maps.Keys(f.images()))
	slices.Sort(out)
	return out
}

func (f *world) Owner(id string) (reference.Owner, error) {
	if owner, ok := f.owners[id]; ok {
		return owner, f.unread["owner"]
	}
	return reference.Owner{}, node.Errorf(node.NotExist, "there is none")
}

func (f *world) HasNetwork(user, name string, hash workload.Hash) (reference.Presence, error) {
	if user != f.user {
		return reference.Absent, nil
	}
	if hash != (workload.Hash{}) {
		name += " " + hash.Hex()
	}
	return f.known[name], f.unread["has network"]
}

func (f *world) seal(path, secret string) string {
	f.t.Helper()
	sealed, err := workload.SealSecret(f.Identity.ID(), f.user, workload.TypeContainer, path, []byte(secret))
	if err != nil {
		f.t.Fatal(err)
	}
	return sealed
}

func (f *world) reservation(data string) *workload.Reservation {
	return &workload.Reservation{
		ID: "2-1", NodeID: f.Identity.ID(), User: f.user, Type: workload.TypeContainer, Data: []byte(data),
		Version: workload.V2, Created: time.Now(), Duration: time.Hour,
	}
}
