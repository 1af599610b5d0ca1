package network_test

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/internal/testing/fakenode"
	"github.com/croft-edge/croft/internal/testing/looktest"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/provisioner/network"
)

var (
	_ provisioner.Provisioner = (*network.Provisioner)(nil)
	_ provisioner.Watched     = (*network.Provisioner)(nil)
)

// world is a provisioner with its fake node.
type world struct {
	*fakenode.Node
	*network.Provisioner
	key string // the WireGuard key before sealing
}

func newWorld(t *testing.T) *world {
	t.Helper()
	n := fakenode.New(t)
	return &world{Node: n, Provisioner: network.New(network.Config{Networks: n.Networks.Serve(t), Inspector: fakenode.NetworkInspector{Networks: n.Networks}.Serve(t), Identity: n.Identity.Serve(t)})}
}

// failNetworks makes the network module fail with err until it is called with nil.
func (w *world) failNetworks(err error) {
	for _, method := range []string{"Create", "Delete", "List"} {
		w.Fail("Networks."+method, err)
	}
}

// have are the specs of the networks on the node.
func (w *world) have() map[string]node.NetworkSpec { return w.Networks.Specs() }

const user = "6Y6usApYSWiMRSNvnBFHL6vbSJamoCsjjwJsn6q4mpry"

// reserve makes a reservation whose second resource is this node's.
func (w *world) reserve(t *testing.T, id, path string) *workload.Reservation {
	t.Helper()
	private, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	w.key = base64.StdEncoding.EncodeToString(private.Bytes())
	sealed, err := workload.SealSecret(w.Identity.ID(), user, workload.TypeNetwork, path, []byte(w.key))
	if err != nil {
		t.Fatal(err)
	}
	other, err := sign.Generate()
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(workload.Network{Name: "net1", IPRange: "10.1.0.0/16", Resources: []workload.NetworkResource{
		{NodeID: other.ID(), Subnet: "10.1.1.0/24", PrivateKey: strings.Repeat("ab", 92), PublicKey: "cnS4uHqHsn77zuU7eUlekbE3kl4YOycgdAihgKV+KA4=", ListenPort: 3001, Peers: []workload.WireGuardPeer{}},
		{NodeID: w.Identity.ID(), Subnet: "10.1.2.0/24", PrivateKey: sealed, PublicKey: base64.StdEncoding.EncodeToString(private.PublicKey().Bytes()), ListenPort: 3002, Peers: []workload.WireGuardPeer{
			{Subnet: "10.1.1.0/24", PublicKey: "cnS4uHqHsn77zuU7eUlekbE3kl4YOycgdAihgKV+KA4=", AllowedIPs: []string{"10.1.1.0/24"}, Endpoint: "node.example:3001"},
		}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return &workload.Reservation{ID: id, NodeID: w.Identity.ID(), User: user, Type: workload.TypeNetwork, Version: 2, Created: time.Now(), Data: data}
}

const path = "net_resources[1].wg_private_key"

func id() string {
	key := workload.NetworkKey(user, "net1")
	return hex.EncodeToString(key[:])
}

func TestItAsksForThisNodesPart(t *testing.T) {
	w := newWorld(t)
	r := w.reserve(t, "7-1", path)
	for range 2 {
		data, err := w.Provision(t.Context(), r)
		if err != nil || data != nil {
			t.Fatalf("provision: %s, %v", data, err)
		}
	}
	got := w.have()[id()]
	if got.Label != "7-1" || got.User != user || got.Name != "net1" || got.IPRange != "10.1.0.0/16" || got.Subnet != "10.1.2.0/24" ||
		got.ListenPort != 3002 || got.PrivateKey != w.key || len(got.Peers) != 1 || got.Peers[0].Endpoint != "node.example:3001" {
		t.Errorf("asked for %+v", got)
	}
	if ids, err := w.Provisioner.List(t.Context()); err != nil || !slices.Equal(ids, []string{"7-1"}) {
		t.Errorf("lists %v, %v", ids, err)
	}
}

func TestChangeReport(t *testing.T) {
	w := newWorld(t)
	if _, err := w.Provision(t.Context(), w.reserve(t, "7-1", path)); err != nil {
		t.Fatal(err)
	}
	const drift = "its bridge is gone"
	w.Networks.SetDrift(id(), drift)
	seen, err := w.Look(t.Context())
	if err != nil || len(seen) != 1 || seen[w.label("7-1")].Drift != drift {
		t.Errorf("sees %v, %v", seen, err)
	}
	looktest.Same(t, w, seen)
	w.failNetworks(node.Errorf(node.Transient, "away"))
	if _, err := w.Look(t.Context()); node.KindOf(err) != node.Transient {
		t.Errorf("a module that is away: %v", err)
	}
}

func TestTheSameNameIsTheSameNetwork(t *testing.T) {
	w := newWorld(t)
	for _, id := range []string{"7-1", "8-1"} {
		if _, err := w.Provision(t.Context(), w.reserve(t, id, path)); err != nil {
			t.Fatal(err)
		}
	}
	if len(w.have()) != 1 || w.have()[id()].Label != "8-1" {
		t.Errorf("has %v", w.have())
	}
}

func TestUnopenableSecrets(t *testing.T) {
	busy := node.Errorf(node.Transient, "identity is away")
	for name, c := range map[string]struct {
		path string
		fail error
		want node.Kind
	}{
		"a box of another field":        {"net_resources[0].wg_private_key", nil, node.Invalid},
		"a box of another type's field": {"password", nil, node.Invalid},
		"identity is away":              {path, busy, node.Transient},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.Fail("Identity.Decrypt", c.fail)
			_, err := w.Provision(t.Context(), w.reserve(t, "7-1", c.path))
			if node.KindOf(err) != c.want || len(w.have()) != 0 {
				t.Errorf("%v of kind %s, want %s; has %v", err, node.KindOf(err), c.want, w.have())
			}
			if err != nil && strings.Contains(err.Error(), w.key) {
				t.Error("the error tells the key")
			}
		})
	}
}

func TestAnErrorKeepsItsKind(t *testing.T) {
	for _, kind := range []node.Kind{node.Refused, node.Transient, node.Busy, node.NoSpace, node.Unknown} {
		w := newWorld(t)
		r := w.reserve(t, "7-1", path)
		w.failNetworks(node.Errorf(kind, "no"))
		if _, err := w.Provision(t.Context(), r); node.KindOf(err) != kind || !strings.HasPrefix(err.Error(), "cannot provision network 7-1") {
			t.Errorf("provision: %v", err)
		}
		if err := w.Decommission(t.Context(), r); node.KindOf(err) != kind {
			t.Errorf("decommission: %v", err)
		}
	}
}

func TestItLeaves(t *testing.T) {
	w := newWorld(t)
	r := w.reserve(t, "7-1", path)
	if err := w.Decommission(t.Context(), r); err != nil {
		t.Errorf("what isn't there: %v", err)
	}
	if _, err := w.Provision(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	own := w.label("7-1")
	for _, other := range []provisioner.Label{{ID: "9-1", Hash: own.Hash}, {ID: "7-1", Hash: workload.Hash{1}}, {ID: "7-1"}} {
		if err := w.Remove(t.Context(), other); err != nil || len(w.have()) != 1 {
			t.Errorf("the orphan %v, which isn't there: %v, has %v", other, err, w.have())
		}
	}
	for range 2 {
		if err := w.Remove(t.Context(), own); err != nil || len(w.have()) != 0 {
			t.Errorf("an orphan: %v, has %v", err, w.have())
		}
	}
	// Decommission goes by user and name alone, whatever ID or hash the label has.
	for _, unlabelled := range []bool{false, true} {
		if _, err := w.Provision(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if spec := w.have()[id()]; unlabelled {
			spec.Hash = ""
			w.Networks.Put(spec)
		}
		r.ID = "8-1"
		if err := w.Decommission(t.Context(), r); err != nil || len(w.have()) != 0 {
			t.Errorf("by its name: %v, has %v", err, w.have())
		}
	}
}

// Deleting the newest accepted reservation of a name removes the network, even when
// the module never applied it and the network is still the previous one's. The engine
// sees to it that a refused reservation's end removes nothing: it never calls Decommission.
func TestTheEndOfAnUpdateThatWasNeverApplied(t *testing.T) {
	w := newWorld(t)
	first, update := w.reserve(t, "7-1", path), w.reserve(t, "8-1", path)
	if _, err := w.Provision(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	w.failNetworks(node.Errorf(node.Refused, "no"))
	if _, err := w.Provision(t.Context(), update); node.KindOf(err) != node.Refused || w.have()[id()].Label != "7-1" {
		t.Fatal(err, w.have())
	}
	w.failNetworks(nil)
	if err := w.Decommission(t.Context(), update); err != nil || len(w.have()) != 0 {
		t.Errorf("the update's end: %v, has %v", err, w.have())
	}
}

// Once an update was applied, the network has the update's label.
func TestAnUpdatesLabel(t *testing.T) {
	w := newWorld(t)
	first, update := w.reserve(t, "7-1", path), w.reserve(t, "8-1", path)
	for _, r := range []*workload.Reservation{first, update} {
		if _, err := w.Provision(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	h, err := update.Hash()
	seen, lookErr := w.Look(t.Context())
	if _, there := seen[provisioner.Label{ID: "8-1", Hash: h}]; err != nil || lookErr != nil || len(seen) != 1 || !there {
		t.Errorf("sees %v, %v, %v", seen, err, lookErr)
	}
}

// label is that reservation ID with the hash of the user's network.
func (w *world) label(reservation string) provisioner.Label {
	return provisioner.LabelOf(reservation, w.have()[id()].Hash)
}

// Networks of two names may have one ID, each with its own hash: Look returns both,
// and removing one leaves the other.
func TestTwoNetworksOfOneID(t *testing.T) {
	for orphan, other := range map[string]string{"a": "b", "b": "a"} {
		w := newWorld(t)
		for i, name := range []string{"a", "b", "c"} {
			w.Networks.Put(node.NetworkSpec{ID: name, Label: "7-1", Hash: workload.Hash{byte(i + 1)}.Hex()})
		}
		w.Networks.Put(node.NetworkSpec{ID: "c", Label: "7-1"}) // made by an older croft
		seen, err := w.Look(t.Context())
		if err != nil || len(seen) != 3 {
			t.Fatalf("sees %v, %v", seen, err)
		}
		looktest.Same(t, w, seen)
		if ids, err := w.Provisioner.List(t.Context()); err != nil || !slices.Equal(ids, []string{"7-1"}) {
			t.Errorf("lists %v, %v", ids, err)
		}
		if err := w.Remove(t.Context(), provisioner.LabelOf("7-1", w.have()[orphan].Hash)); err != nil {
			t.Fatal(err)
		}
		if _, there := w.have()[other]; !there || w.have()["c"].Label == "" || len(w.have()) != 2 {
			t.Errorf("without %s there is %v", orphan, w.have())
		}
		if err := w.Remove(t.Context(), provisioner.Label{ID: "7-1"}); err != nil || len(w.have()) != 1 || w.have()[other].ID == "" {
			t.Errorf("without what has no hash there is %v, %v", w.have(), err)
		}
	}
}

func TestAForeignDocumentIsRefused(t *testing.T) {
	w := newWorld(t)
	r := w.reserve(t, "7-1", path)
	r.NodeID = user
	if _, err := w.Provision(t.Context(), r); node.KindOf(err) != node.Invalid {
		t.Errorf("without a resource of this node: %v", err)
	}
	r.Data = json.RawMessage(`{}`)
	if _, err := w.Provision(t.Context(), r); node.KindOf(err) != node.Invalid {
		t.Errorf("no data: %v", err)
	}
	if errors.Is(w.Decommission(t.Context(), r), nil) {
		t.Error("nothing can be said of what cannot be read")
	}
}
