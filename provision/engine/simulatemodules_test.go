package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/lifecycle"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/store"
)

// simThing is a workload on the simulated node.
type simThing struct {
	kind workload.Type
	provisioner.Label
	user string
	// made numbers the makings of it: each has its own user data.
	made    int
	stopped bool
	drift   string
	// volumes are those that a container mounts, by ID; network is its network.
	volumes map[string]workload.Hash
	network string
}

func (t *simThing) holdsData() bool { return simHoldsData(t.kind) }

func simHoldsData(t workload.Type) bool {
	return t == workload.TypeVolume || t == workload.TypeZDB
}

// simData is the part of a reservation's data that the simulation reads.
type simData struct {
	Name   string `json:"name"`
	Mode   string `json:"mode"`
	Size   uint64 `json:"size"`
	Mounts []struct {
		VolumeID   string `json:"volume_id"`
		VolumeHash string `json:"volume_hash"`
	} `json:"mounts"`
	Network struct {
		NetworkID string `json:"network_id"`
	} `json:"network"`
	Capacity struct {
		CPU uint64 `json:"cpu"`
	} `json:"capacity"`
}

func simDataOf(r *workload.Reservation) (d simData) {
	_ = json.Unmarshal(r.Data, &d)
	return d
}

// fault is a way in which a call of a module fails.
type fault int

const (
	faultNone fault = iota
	faultTransient
	faultFinal
	faultUnknownDone
	faultUnknownUndone
	faultInternal
	faultPanic
	// faultSilent is no answer within the effect's deadline.
	faultSilent
	faults
)

// simModules are the modules of the node: they outlive croft's process.
type simModules struct {
	things  map[string]*simThing
	made    int
	fetched map[workload.Hash]bool
	// records are the node's own, to find the volumes to mount.
	records func() store.Records
	// fault is the fault of the current call.
	fault   fault
	silent  bool
	promise func(t *simThing, what string)
}

func newSimModules() *simModules {
	return &simModules{things: map[string]*simThing{}, fetched: map[workload.Hash]bool{}}
}

// simKey is the key of a reservation's thing: a network under its user's name of it, a
// namespace in the zdb of its mode, all else under the ID. So several networks or
// namespaces may have one ID.
func simKey(r *workload.Reservation) string {
	switch d := simDataOf(r); r.Type {
	case workload.TypeNetwork:
		return "network " + r.User + "/" + d.Name
	case workload.TypeZDB:
		return "zdb " + d.Mode + "/" + r.ID
	}
	return string(r.Type) + " " + r.ID
}

func (m *simModules) sorted() []*simThing {
	out := make([]*simThing, 0, len(m.things))
	for _, key := range slices.Sorted(maps.Keys(m.things)) {
		out = append(out, m.things[key])
	}
	return out
}

// look lists the workloads of a type, by label.
func (m *simModules) look(t workload.Type) map[provisioner.Label]provisioner.Seen {
	seen := map[provisioner.Label]provisioner.Seen{}
	for _, thing := range m.sorted() {
		if thing.kind == t {
			one := provisioner.Seen{Drift: thing.drift}
			if thing.stopped && thing.kind == workload.TypeContainer {
				one.Drift = "it is stopped"
			}
			seen[thing.Label] = one
		}
	}
	return seen
}

// call carries out a module's call, or fails as fault says.
func (m *simModules) call(do func() error) error {
	switch m.fault {
	case faultTransient:
		return node.Errorf(node.Transient, "cannot do it now")
	case faultFinal:
		return node.Errorf(node.Refused, "cannot do it ever")
	case faultUnknownUndone:
		return node.Errorf(node.Unknown, "cannot tell whether it was done")
	case faultSilent:
		return node.Errorf(node.Unknown, "cannot do it: the module doesn't answer")
	case faultInternal:
		return node.Errorf(node.Internal, "cannot do it: broken")
	case faultPanic:
		panic("a module's caller panics")
	case faultUnknownDone:
		if err := do(); err != nil {
			return err
		}
		return node.Errorf(node.Unknown, "cannot tell whether it was done")
	}
	return do()
}

func (m *simModules) make(r *workload.Reservation) error {
	h, err := r.Hash()
	if err != nil {
		return err
	}
	key := simKey(r)
	old := m.things[key]
	if old != nil && old.Hash != h && r.Type != workload.TypeNetwork {
		return node.Errorf(node.Exist, "cannot make %s: what is there is another reservation's", r.ID)
	}
	thing := &simThing{kind: r.Type, Label: provisioner.Label{ID: r.ID, Hash: h}, user: r.User}
	if r.Type == workload.TypeContainer {
		if err := m.join(r, thing); err != nil {
			return err
		}
	}
	if old != nil && old.Hash == h {
		thing.made = old.made
	} else {
		m.made++
		thing.made = m.made
	}
	m.things[key] = thing
	m.promise(thing, "made")
	return nil
}

// join finds the network and volumes that a container uses: its user's own, by the node's records.
func (m *simModules) join(r *workload.Reservation, c *simThing) error {
	d := simDataOf(r)
	c.volumes = map[string]workload.Hash{}
	for _, mount := range d.Mounts {
		rec, err := m.records().Record(mount.VolumeID)
		here := err == nil && (rec.Phase.Wanted() || rec.Phase == store.Replaced)
		if !here || rec.Reservation.User != r.User || rec.Reservation.Type != workload.TypeVolume ||
			mount.VolumeHash != "" && mount.VolumeHash != rec.Hash.Hex() {
			return node.Errorf(node.Refused, "cannot mount %s: it isn't yours", mount.VolumeID)
		}
		thing := m.things["volume "+mount.VolumeID]
		if thing == nil || thing.Hash != rec.Hash {
			return node.Errorf(node.Transient, "cannot mount %s: it isn't there yet", mount.VolumeID)
		}
		c.volumes[mount.VolumeID] = thing.Hash
	}
	c.network = "network " + r.User + "/" + d.Network.NetworkID
	if m.things[c.network] != nil {
		return nil
	}
	recs, err := m.records().Named(workload.NetworkKey(r.User, d.Network.NetworkID))
	if err != nil {
		return err
	}
	for _, rec := range recs {
		if rec.Phase.Wanted() || rec.Phase == store.Replaced {
			return node.Errorf(node.Transient, "cannot join: the network isn't there yet")
		}
	}
	return node.Errorf(node.Refused, "cannot join: there is no such network of yours")
}

// find returns the key of the thing that a reservation may remove.
func (m *simModules) find(r *workload.Reservation) string {
	key := simKey(r)
	h, err := r.Hash()
	if t := m.things[key]; err != nil || t == nil || t.Hash != h {
		return ""
	}
	return key
}

// users reports whether a running container uses a thing, which may be lost.
func (m *simModules) users(key string) bool {
	volume, isVolume := strings.CutPrefix(key, string(workload.TypeVolume)+" ")
	for _, c := range m.things {
		_, mounts := c.volumes[volume]
		if !c.stopped && (isVolume && mounts || c.network == key) {
			return true
		}
	}
	return false
}

// labelled returns the key of the thing with a label.
func (m *simModules) labelled(t workload.Type, l provisioner.Label) string {
	for key, thing := range m.things {
		if thing.kind == t && thing.Label == l {
			return key
		}
	}
	return ""
}

func (m *simModules) remove(key string) error {
	if key == "" {
		return nil
	}
	if m.users(key) {
		return node.Errorf(node.Busy, "cannot remove %s: a container uses it", key)
	}
	m.promise(m.things[key], "removed")
	delete(m.things, key)
	return nil
}

func (m *simModules) stop(r *workload.Reservation) error {
	if key := m.find(r); key != "" {
		t := *m.things[key]
		t.stopped = true
		m.things[key] = &t
	}
	return nil
}

// lose makes a thing on the node disappear or change by itself.
func (m *simModules) lose(rnd *rand.Rand) string {
	all := m.sorted()
	if len(all) == 0 {
		return "nothing"
	}
	t := all[rnd.IntN(len(all))]
	if rnd.IntN(2) == 0 || t.holdsData() && rnd.IntN(4) > 0 {
		t.drift = "it was changed"
		return fmt.Sprintf("%s %s is changed", t.kind, t.ID)
	}
	m.promise(t, "lost")
	for key, each := range m.things {
		if each == t {
			delete(m.things, key)
		}
	}
	return fmt.Sprintf("%s %s is lost", t.kind, t.ID)
}

// reboot reboots the machine: containers and networks are gone.
func (m *simModules) reboot() {
	maps.DeleteFunc(m.things, func(_ string, t *simThing) bool {
		return t.kind == workload.TypeNetwork || t.kind == workload.TypeContainer
	})
}

// simType is the provisioner of one type. The types below add optional abilities.
type simType struct {
	m    *simModules
	kind workload.Type
}

func (p simType) Provision(_ context.Context, r *workload.Reservation) (json.RawMessage, error) {
	err := p.m.call(func() error { return p.m.make(r) })
	return json.RawMessage(`{"id":"` + r.ID + `"}`), err
}

func (p simType) Decommission(_ context.Context, r *workload.Reservation) error {
	return p.m.call(func() error { return p.m.remove(p.m.find(r)) })
}

func (p simType) Remove(_ context.Context, orphan provisioner.Label) error {
	return p.m.call(func() error { return p.m.remove(p.m.labelled(p.kind, orphan)) })
}

func (p simType) List(context.Context) ([]string, error) {
	return provisioner.IDs(p.m.look(p.kind)), nil
}

func (p simType) Look(context.Context) (map[provisioner.Label]provisioner.Seen, error) {
	if p.m.silent {
		return nil, node.Errorf(node.Transient, "cannot list")
	}
	return p.m.look(p.kind), nil
}

func (p simType) HoldsData() bool { return simHoldsData(p.kind) }

// simRunning is a type whose workloads run and need a fetch.
type simRunning struct{ simType }

func (p simRunning) Stop(_ context.Context, r *workload.Reservation) error {
	return p.m.call(func() error { return p.m.stop(r) })
}

func (p simRunning) Prepare(_ context.Context, r *workload.Reservation) (provisioner.Progress, error) {
	h, err := r.Hash()
	if err != nil {
		return provisioner.Progress{}, err
	}
	ready := p.m.fetched[h]
	err = p.m.call(func() error {
		p.m.fetched[h] = true
		return nil
	})
	return provisioner.Progress{Ready: ready, What: "half of it"}, err
}

// simParallel has several effects in flight.
type simParallel struct{ simRunning }

func (simParallel) Slots() int { return 4 }

// Succeed makes r in the place of others. Interrupted it leaves none running; when
// it fails, the older one runs on.
func (p simParallel) Succeed(_ context.Context, r *workload.Reservation, place provisioner.Place) (json.RawMessage, error) {
	if p.m.fault == faultUnknownUndone || p.m.fault == faultPanic || p.m.fault == faultInternal {
		p.m.stopAll(place.Others)
	}
	err := p.m.call(func() error {
		if err := p.m.make(r); err != nil {
			return err
		}
		p.m.stopAll(place.Others)
		return nil
	})
	if err != nil && place.Older != nil && node.KindOf(err).Final() {
		if key := p.m.find(place.Older); key != "" && p.m.things[key].stopped {
			return nil, node.Errorf(node.Unknown, "cannot go back: %v", err)
		}
	}
	return json.RawMessage(`{"id":"` + r.ID + `"}`), err
}

// stopAll stops the running workloads of a name.
func (m *simModules) stopAll(others []*workload.Reservation) {
	for _, other := range others {
		_ = m.stop(other)
	}
}

// twice returns a name of which more than one workload runs; empty when there is none.
func (m *simModules) twice(recs map[string]store.Record) string {
	running := map[lifecycle.NameKey]string{}
	for _, id := range slices.Sorted(maps.Keys(recs)) {
		rec := recs[id]
		t := m.things[simKey(rec.Reservation)]
		if rec.Name == (lifecycle.NameKey{}) || rec.Reservation.Type != workload.TypeContainer || t == nil || t.Hash != rec.Hash || t.stopped {
			continue
		}
		if other := running[rec.Name]; other != "" {
			return other + " and " + id
		}
		running[rec.Name] = id
	}
	return ""
}

func (m *simModules) provisioners() map[workload.Type]provisioner.Provisioner {
	of := func(t workload.Type) simType { return simType{m, t} }
	return map[workload.Type]provisioner.Provisioner{
		workload.TypeVolume: of(workload.TypeVolume), workload.TypeNetwork: of(workload.TypeNetwork),
		workload.TypeZDB: simRunning{of(workload.TypeZDB)}, workload.TypeContainer: simParallel{simRunning{of(workload.TypeContainer)}},
	}
}
