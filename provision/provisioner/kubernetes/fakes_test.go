package kubernetes_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/internal/testing/fakenode"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/provisioner/kubernetes"
	"github.com/croft-edge/croft/provision/provisioner/reference"
)

var (
	_ provisioner.Provisioner = (*kubernetes.Provisioner)(nil)
	_ provisioner.DataHolder  = (*kubernetes.Provisioner)(nil)
	_ provisioner.Stopper     = (*kubernetes.Provisioner)(nil)
	_ provisioner.Watched     = (*kubernetes.Provisioner)(nil)
	_ provisioner.Parallel    = (*kubernetes.Provisioner)(nil)
)

// world is a node's modules, its records, and its image.
type world struct {
	*fakenode.Node
	t     testing.TB
	stubs fakenode.Stubs
	user  string
	// known are the user's networks: by name, and by name and hash.
	known map[string]reference.Presence
	image node.VMImage
	// deployed is whether reservations were deployed before.
	deployed bool
}

const clusterSecret = "the cluster's secret"

func newWorld(t *testing.T) *world {
	t.Helper()
	user, err := sign.Generate()
	if err != nil {
		t.Fatal(err)
	}
	n := fakenode.New(t,
		node.Pool{Name: "ssd0", Path: "/pools/ssd0", DiskType: workload.SSD, Offered: 200 * workload.GiB},
		node.Pool{Name: "hdd0", Path: "/pools/hdd0", DiskType: workload.HDD, Offered: 200 * workload.GiB},
	)
	w := &world{
		Node: n, t: t, stubs: n.Serve(t), user: user.ID(), known: map[string]reference.Presence{"net": reference.Accepted},
		image: n.VMImages.Offer("1"),
	}
	n.Networks.Put(node.NetworkSpec{ID: w.network(), User: w.user, Name: "net", Subnet: "10.1.1.0/24"})
	return w
}

// network is the network module's key for the user's network.
func (w *world) network() string {
	k := workload.NetworkKey(w.user, "net")
	return fmt.Sprintf("%x", k[:])
}

func (w *world) provisioner() *kubernetes.Provisioner {
	return kubernetes.New(kubernetes.Config{
		VMs: w.stubs.VMs, Disks: w.stubs.VDisks, Taps: w.stubs.Taps, Networks: w.stubs.Networks,
		Identity: w.stubs.Identity, Owners: w, Images: w.stubs.VMImages,
	})
}

// WasDeployed is kubernetes.Records.
func (w *world) WasDeployed(string) (bool, error) { return w.deployed, nil }

// HasNetwork is reference.Networks.
func (w *world) HasNetwork(user, name string, hash workload.Hash) (reference.Presence, error) {
	if user != w.user {
		return reference.Absent, nil
	}
	if hash != (workload.Hash{}) {
		name += " " + hash.Hex()
	}
	return w.known[name], nil
}

func (w *world) seal(secret string) string {
	w.t.Helper()
	sealed, err := workload.SealSecret(w.Identity.ID(), w.user, workload.TypeKubernetes, "cluster_secret", []byte(secret))
	if err != nil {
		w.t.Fatal(err)
	}
	return sealed
}

// data is a master's data; replacements are pairs of texts in it.
func (w *world) data(replacements ...string) string {
	w.t.Helper()
	return strings.NewReplacer(replacements...).Replace(fmt.Sprintf(
		`{"size":1,"network_id":"net","ip":"10.1.1.9","cluster_secret":%q,"master_ips":[],"ssh_keys":["ssh-ed25519 AAAA me@home","github:somebody"]}`,
		w.seal(clusterSecret)))
}

func (w *world) reservation(id, data string) *workload.Reservation {
	return &workload.Reservation{
		ID: id, NodeID: w.Identity.ID(), User: w.user, Type: workload.TypeKubernetes, Data: []byte(data),
		Version: workload.V2, Created: time.Unix(1700000000, 0), Duration: time.Hour,
	}
}

func hashOf(t testing.TB, r *workload.Reservation) string {
	t.Helper()
	h, err := r.Hash()
	if err != nil {
		t.Fatal(err)
	}
	return h.Hex()
}

// parts are the VMs, disks and taps of the node: each with its ID and its hash.
func (w *world) parts() map[string]string {
	w.t.Helper()
	out := map[string]string{}
	vms, err := w.VMs.List()
	must(w.t, err)
	for _, vm := range vms {
		out["VM "+vm.ID] = vm.Hash
	}
	disks, err := fakenode.VDisks{Storage: w.Storage}.List()
	must(w.t, err)
	for _, d := range disks {
		out["disk "+d.Name] = d.Hash
	}
	for _, tap := range w.taps() {
		out["tap "+tap.VM] = tap.Hash
	}
	return out
}

func (w *world) taps() []node.Tap {
	w.t.Helper()
	taps, err := fakenode.Taps{Networks: w.Networks}.List()
	must(w.t, err)
	return taps
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write writes to the disk of that name, as its guest does; kept reports whether that is still there.
func (w *world) write(name string) {
	w.t.Helper()
	d, err := fakenode.VDisks{Storage: w.Storage}.Inspect(name)
	must(w.t, err)
	must(w.t, fakenode.DiskImages{Storage: w.Storage}.Write(d.Path, 0, []byte(strings.Repeat("k", 4096))))
}

func (w *world) kept(name string) bool {
	d, err := fakenode.VDisks{Storage: w.Storage}.Inspect(name)
	return err == nil && d.Used > 0
}
