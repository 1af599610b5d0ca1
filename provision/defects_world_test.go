package provision_test

import (
	"context"
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/store"
)

// namedNetworks is an in-memory network module: a network is identified by its user's name
// for it, and an update changes the existing one.
type namedNetworks struct {
	mu sync.Mutex
	// have is the hash of the reservation that each name was last made for.
	have  map[string]workload.Hash
	ids   map[string]string
	heard []string
	// fail is the error of an ID's provision.
	fail map[string]error
}

func newNamedNetworks() *namedNetworks {
	return &namedNetworks{have: map[string]workload.Hash{}, ids: map[string]string{}, fail: map[string]error{}}
}

func nameIn(r *workload.Reservation) string {
	var data struct{ Name string }
	if err := json.Unmarshal(r.Data, &data); err != nil {
		return ""
	}
	return data.Name
}

func (n *namedNetworks) Provision(_ context.Context, r *workload.Reservation) (json.RawMessage, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.heard = append(n.heard, "provision "+r.ID)
	if err := n.fail[r.ID]; err != nil {
		return nil, err
	}
	hash, err := r.Hash()
	n.have[nameIn(r)], n.ids[nameIn(r)] = hash, r.ID
	return nil, err
}

func (n *namedNetworks) Decommission(_ context.Context, r *workload.Reservation) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.heard = append(n.heard, "decommission "+r.ID)
	delete(n.have, nameIn(r))
	delete(n.ids, nameIn(r))
	return nil
}

func (n *namedNetworks) Remove(_ context.Context, orphan provisioner.Label) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.heard = append(n.heard, "remove "+orphan.ID)
	for name, id := range n.ids {
		if id == orphan.ID && n.have[name] == orphan.Hash {
			delete(n.have, name)
			delete(n.ids, name)
		}
	}
	return nil
}

func (n *namedNetworks) List(context.Context) ([]string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Sorted(maps.Values(n.ids)), nil
}

func (n *namedNetworks) Look(context.Context) (map[provisioner.Label]provisioner.Seen, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := map[provisioner.Label]provisioner.Seen{}
	for name, id := range n.ids {
		out[provisioner.Label{ID: id, Hash: n.have[name]}] = provisioner.Seen{}
	}
	return out, nil
}

// made is the ID of the reservation that a name was last made for; empty when it
// isn't on the node.
func (n *namedNetworks) made(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ids[name]
}

func (n *namedNetworks) fails(id string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fail[id] = err
}

// reboot removes the networks, as a reboot does.
func (n *namedNetworks) reboot() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.have)
	clear(n.ids)
}

func (n *namedNetworks) calls() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.heard)
}

// withNetworks runs a node that offers networks beside volumes.
func withNetworks(t *testing.T, test func(t *testing.T, w *world, n *incarnation, nets *namedNetworks)) {
	t.Helper()
	nets := newNamedNetworks()
	inWorld(t, func(w *world) {
		w.provisioners = map[workload.Type]provisioner.Provisioner{workload.TypeNetwork: nets}
		w.limits.Drift = 10 * time.Second
	}, func(t *testing.T, w *world, n *incarnation) { test(t, w, n, nets) })
}

// netOf signs a reservation of the network of that name.
func (w *world) netOf(name string, edit func(r *workload.Reservation)) *workload.Reservation {
	w.t.Helper()
	return w.reserve(workload.TypeNetwork, w.networkData(name), edit)
}

// deleted returns r with its user's signed deletion.
func (w *world) deleted(r *workload.Reservation) *workload.Reservation {
	w.t.Helper()
	c := *r
	if err := c.SignDeletion(workload.Deletion{Created: w.clock.wall()}, w.user.Private()); err != nil {
		w.t.Fatal(err)
	}
	return &c
}

// lostStore makes the node's disk anew; the modules keep their workloads.
func (w *world) lostStore(n *incarnation) *store.FSStore {
	w.t.Helper()
	n.stop(w.t)
	if err := w.records.Close(); err != nil {
		w.t.Fatal(err)
	}
	w.dir = filepath.Join(w.dir, "new")
	lost, err := store.Open(store.Config{Root: w.dir, Clock: w.clock, Demand: demandOf})
	if err != nil {
		w.t.Fatal(err)
	}
	w.records = lost
	if err := w.cursor.SetCursor(lost.Cursor()); err != nil {
		w.t.Fatal(err)
	}
	*n = *w.start(newStepper(""))
	return lost
}

// swap exchanges the documents of two IDs, as a lying explorer does.
func (e *fakeExplorer) swap(a, b string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	one, two := *e.docs[a], *e.docs[b]
	one.ID, two.ID = b, a
	e.docs[a], e.docs[b] = &two, &one
	e.touch(a)
	e.touch(b)
}

// document is the explorer's document of an ID.
func (e *fakeExplorer) document(id string) *workload.Reservation {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := *e.docs[id]
	return &c
}

// handled waits until the node has handled all earlier changes.
func (w *world) handled() {
	w.t.Helper()
	last := w.volume(func(r *workload.Reservation) { r.Duration = time.Hour })
	w.answered(last, workload.StateOK)
	w.remove(last)
	w.answered(last, workload.StateDeleted)
}

// record is the node's record of an ID.
func (w *world) record(id string) store.Record {
	w.t.Helper()
	rec, err := w.records.Record(id)
	if err != nil {
		w.t.Fatal(err)
	}
	return rec
}

// forgotten reports whether the node has no record of an ID.
func (w *world) forgotten(id string) bool {
	_, err := w.records.Record(id)
	return node.KindOf(err) == node.NotExist
}

// told reports whether the user was ever told of a state.
func (w *world) told(id string, state workload.State) bool {
	return slices.ContainsFunc(w.explorer.all(id), func(r *workload.Result) bool { return r.State == state })
}

// byWord sets the clock by the explorer alone, ahead by that much; byNTP sets it right.
func (c *fakeClock) byWord(ahead time.Duration) { c.set(ahead, true, false) }
func (c *fakeClock) byNTP()                     { c.set(0, true, true) }

// count is how many of the calls begin with a word.
func count(calls []string, word string) (n int) {
	for _, call := range calls {
		if strings.HasPrefix(call, word) {
			n++
		}
	}
	return n
}
