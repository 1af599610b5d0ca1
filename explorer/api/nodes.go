package api

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/explorer/longpoll"
	"github.com/croft-edge/croft/explorer/store"
	wire "github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
)

// onlineFor is how long a node counts as online after it was last heard of.
const onlineFor = 5 * time.Minute

// nodes answers requests about nodes.
type nodes struct {
	store      *store.Nodes
	farms      *store.Farms
	signatures *signatures
	rates      *rates
	homes      *longpoll.Homes
	send       *sender
	now        func() time.Time
}

// post registers a node, or updates its own fields. Fields that the explorer or others set
// (created, approved, public_config) are kept.
func (ns *nodes) post(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r, nodeBody)
	if err != nil {
		return err
	}
	by, err := ns.signatures.byNode(r, body)
	if err != nil {
		return err
	}
	var in wire.Node
	if err := decodeJSON(body, &in); err != nil {
		return err
	}
	if _, err := sign.ParseID(in.NodeID); err != nil {
		return invalid("node_id", in.NodeID, "the base58 of a 32-byte ed25519 key")
	}
	if len(in.Door) > maxDoor {
		return invalid("door", in.Door, "HOST:PORT of at most 261 characters")
	}
	if err := ownWrite(by, in.NodeID); err != nil {
		return err
	}
	if err := ns.checkGrant(r, in); err != nil {
		return err
	}
	if _, there := ns.store.Head(in.NodeID); !there {
		if err := ns.rates.brought(r, ns.rates.newNodes, 1); err != nil {
			return err
		}
	}
	now := ns.now()
	err = ns.store.Update(r.Context(), by, in.NodeID, store.Edit{Create: true, Seen: now, Apply: func(n *wire.Node, fresh bool) error {
		if fresh {
			n.Created = now.Unix()
		}
		register(n, in)
		n.Updated = now.Unix()
		if in.Grant != nil {
			return join(n, *in.Grant, now)
		}
		return nil
	}})
	if err != nil {
		return ns.signatures.replayed(by, err)
	}
	ns.home(r, by)
	w.WriteHeader(http.StatusCreated)
	return nil
}

// home records the source of a node's signed write.
func (ns *nodes) home(r *http.Request, by store.Writer) {
	if by.Key != "" {
		ns.homes.Signed(by.Key, source(r))
	}
}

// checkGrant checks the farm owner's grant that came with a registration.
func (ns *nodes) checkGrant(r *http.Request, in wire.Node) error {
	if in.Grant == nil {
		return nil
	}
	farm, err := ns.farms.Get(r.Context(), in.FarmID)
	if err != nil {
		return err
	}
	return wire.VerifyGrant(*in.Grant, farm, in.NodeID)
}

// register copies the node's own fields.
func register(n *wire.Node, in wire.Node) {
	n.Approved = n.Approved && n.FarmID == in.FarmID
	n.NodeIDv1, n.FarmID, n.OSVersion, n.Address, n.Location = in.NodeIDv1, in.FarmID, in.OSVersion, in.Address, in.Location
	n.Uptime, n.Proofs, n.PublicKeyHex, n.Birth, n.Door = in.Uptime, in.Proofs, in.PublicKeyHex, in.Birth, in.Door
	if in.TotalResources != (wire.Resources{}) {
		n.TotalResources = in.TotalResources
	}
	if in.UsedResources != (wire.Resources{}) {
		n.UsedResources = in.UsedResources
	}
	if in.FreeResources != nil {
		n.FreeResources = in.FreeResources
	}
	if in.Ifaces != nil {
		n.Ifaces = in.Ifaces
	}
	if in.WGPorts != nil {
		n.WGPorts = in.WGPorts
	}
}

// edit handles a signed update of a node's own fields after its registration.
func (ns *nodes) edit(w http.ResponseWriter, r *http.Request, in any, apply func(n *wire.Node)) error {
	id := r.PathValue("id")
	body, err := readBody(w, r, nodeBody)
	if err != nil {
		return err
	}
	by, err := ns.signatures.byNode(r, body)
	if err != nil {
		return err
	}
	if err := ownWrite(by, id); err != nil {
		return err
	}
	if err := decodeJSON(body, in); err != nil {
		return err
	}
	now := ns.now()
	err = ns.store.Update(r.Context(), by, id, store.Edit{Seen: now, Apply: func(n *wire.Node, _ bool) error {
		apply(n)
		n.Updated = now.Unix()
		return nil
	}})
	if err == nil {
		ns.home(r, by)
	}
	return ns.signatures.replayed(by, err)
}

func (ns *nodes) postInterfaces(w http.ResponseWriter, r *http.Request) error {
	var in []wire.Iface
	if err := ns.edit(w, r, &in, func(n *wire.Node) { n.Ifaces = in }); err != nil {
		return err
	}
	w.WriteHeader(http.StatusCreated)
	return nil
}

func (ns *nodes) postPorts(w http.ResponseWriter, r *http.Request) error {
	var in wire.Ports
	if err := ns.edit(w, r, &in, func(n *wire.Node) { n.WGPorts = in.Ports }); err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

func (ns *nodes) postCapacity(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Capacity wire.Resources `json:"capacity"`
	}
	if err := ns.edit(w, r, &in, func(n *wire.Node) { n.TotalResources = in.Capacity }); err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

func (ns *nodes) postUptime(w http.ResponseWriter, r *http.Request) error {
	var in wire.Heartbeat
	err := ns.edit(w, r, &in, func(n *wire.Node) {
		n.Uptime = in.Uptime
		if in.UsedResources != nil {
			n.UsedResources = *in.UsedResources
		}
		if in.FreeResources != nil {
			n.FreeResources = in.FreeResources
		}
		if in.Birth != "" {
			n.Birth = in.Birth
		}
	})
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// postPublicConfig sets the public configuration: the farm owner signs it, not the node.
func (ns *nodes) postPublicConfig(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r, nodeBody)
	if err != nil {
		return err
	}
	id := r.PathValue("id")
	by := store.Writer{}
	if !ns.signatures.acceptUnsigned || wire.Signed(r.Header) {
		if by, err = ns.signatures.by(r, body, wire.RoleUser); err != nil {
			return err
		}
		if err := ns.ownsNode(r, by.Key, id); err != nil {
			return err
		}
	}
	var in wire.PublicConfig
	if err := decodeJSON(body, &in); err != nil {
		return err
	}
	now := ns.now()
	err = ns.store.Update(r.Context(), by, id, store.Edit{Apply: func(n *wire.Node, _ bool) error {
		n.PublicConfig, n.Updated = &in, now.Unix()
		return nil
	}})
	if err != nil {
		return ns.signatures.replayed(by, err)
	}
	w.WriteHeader(http.StatusCreated)
	return nil
}

func (ns *nodes) ownsNode(r *http.Request, user, nodeID string) error {
	n, err := ns.store.Get(r.Context(), nodeID)
	if err != nil {
		return err
	}
	farm, err := ns.farms.Get(r.Context(), n.FarmID)
	if err != nil {
		return err
	}
	if !n.Approved || farm.Owner != user {
		return node.Errorf(node.Refused, "cannot configure node %s: %s isn't the owner of a farm that it has joined", nodeID, user)
	}
	return nil
}

func (ns *nodes) get(w http.ResponseWriter, r *http.Request) error {
	n, err := ns.store.Get(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	body, err := json.Marshal(ns.shown(n))
	if err != nil {
		return errors.Wrapf(err, "cannot show node %s", n.NodeID)
	}
	return ns.send.body(w, r, append(body, '\n'))
}

func (ns *nodes) shown(n store.Seen) wire.Node {
	out := n.Node
	out.Grant = nil
	out.Ifaces = slices.Clone(out.Ifaces)
	for i, iface := range out.Ifaces {
		for k, a := range iface.Addrs {
			out.Ifaces[i].Addrs[k] = wire.CIDR(a)
		}
	}
	out.Online = !n.At.IsZero() && ns.now().Sub(n.At) < onlineFor
	return out
}

func (ns *nodes) list(w http.ResponseWriter, r *http.Request) error {
	q := query{values: r.URL.Query()}
	find := store.NodeQuery{After: q.number("after", 0, maxNumber), Limit: int(q.number("limit", maxListed, maxListed)), Farm: q.number("farm", 0, maxNumber)}
	if q.flag("online") {
		find.SeenSince = ns.now().Add(-onlineFor)
	}
	if err := q.only("after", "limit", "farm", "online"); err != nil {
		return err
	}
	last, err := ns.store.Last(r.Context(), find)
	if err != nil {
		return err
	}
	if find.Last = last; last != 0 {
		setNext(w, last)
	}
	opening := byte('[')
	return ns.send.parts(w, r, func() ([]byte, bool, error) {
		nodes, more, err := ns.store.List(r.Context(), find, partBytes)
		if err != nil {
			return nil, false, err
		}
		body := []byte{}
		for _, n := range nodes {
			doc, err := json.Marshal(ns.shown(n))
			if err != nil {
				return nil, false, errors.Wrapf(err, "cannot show node %s", n.NodeID)
			}
			body = append(append(body, opening), doc...)
			opening, find.After = ',', n.Seq
		}
		if more {
			return body, true, nil
		}
		if opening == '[' {
			body = append(body, '[')
		}
		return append(body, "]\n"...), false, nil
	})
}
