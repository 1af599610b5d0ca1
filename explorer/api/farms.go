package api

import (
	"net/http"
	"time"

	"github.com/croft-edge/croft/explorer/store"
	wire "github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
)

// farms answers requests about farms.
type farms struct {
	store      *store.Farms
	nodes      *store.Nodes
	signatures *signatures
	rates      *rates
	now        func() time.Time
}

// post makes a farm that the signing user owns.
func (f *farms) post(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r, farmBody)
	if err != nil {
		return err
	}
	by, err := f.signatures.by(r, body, wire.RoleUser)
	if err != nil {
		return err
	}
	var in wire.Farm
	if err := decodeJSON(body, &in); err != nil {
		return err
	}
	if !farmName(in.Name) {
		return invalid("name", in.Name, "1 to 64 letters, digits, spaces, dots, dashes or underscores, not starting or ending with a space")
	}
	if in.Owner != "" && in.Owner != by.Key {
		return invalid("owner", in.Owner, "absent, or the signer ("+by.Key+")")
	}
	if err := f.rates.brought(r, f.rates.newFarms, 1); err != nil {
		return err
	}
	farm, err := f.store.Create(r.Context(), by, wire.Farm{Name: in.Name, Owner: by.Key, Created: f.now().UTC().Truncate(time.Second)})
	if err != nil {
		return f.signatures.replayed(by, err)
	}
	return writeJSON(w, http.StatusCreated, farm)
}

func farmName(name string) bool {
	if name == "" || len(name) > 64 || name[0] == ' ' || name[len(name)-1] == ' ' {
		return false
	}
	for _, c := range []byte(name) {
		letter := (c|0x20 >= 'a' && c|0x20 <= 'z') || (c >= '0' && c <= '9')
		if !letter && c != ' ' && c != '.' && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

func (f *farms) get(w http.ResponseWriter, r *http.Request) error {
	id, err := farmID(r)
	if err != nil {
		return err
	}
	farm, err := f.store.Get(r.Context(), id)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, farm)
}

func farmID(r *http.Request) (uint64, error) {
	q := query{values: map[string][]string{"id": {r.PathValue("id")}}}
	id := q.number("id", 0, maxNumber)
	return id, q.err
}

func (f *farms) list(w http.ResponseWriter, r *http.Request) error {
	q := query{values: r.URL.Query()}
	after, limit := q.number("after", 0, maxNumber), int(q.number("limit", maxListed, maxListed))
	if err := q.only("after", "limit"); err != nil {
		return err
	}
	farms, err := f.store.List(r.Context(), after, limit)
	if err != nil {
		return err
	}
	if len(farms) == limit {
		setNext(w, farms[len(farms)-1].ID)
	}
	return writeJSON(w, http.StatusOK, farms)
}

// join lets a node join the farm that it names. A grant serves once: a node that has left needs a
// newer grant, and can't be sent back by replaying the old one.
func join(n *wire.Node, grant wire.Grant, now time.Time) error {
	if n.Approved {
		return nil
	}
	if err := grant.Holds(now); err != nil {
		return err
	}
	if n.Grant != nil && !grant.Created.After(n.Grant.Created) {
		return node.Errorf(node.Refused, "cannot let node %s join farm %d: this grant, or a newer one, was used before; the farm's owner must sign another", n.NodeID, n.FarmID)
	}
	n.Approved, n.Grant = true, &grant
	return nil
}

// putNode accepts the farm owner's grant for a registered node. The grant itself is signed, so
// anybody may send it.
func (f *farms) putNode(w http.ResponseWriter, r *http.Request) error {
	var grant wire.Grant
	body, err := readBody(w, r, farmBody)
	if err != nil {
		return err
	}
	if err := decodeJSON(body, &grant); err != nil {
		return err
	}
	if err := onlyMembers(body, "created", "signature"); err != nil {
		return err
	}
	id, err := farmID(r)
	if err != nil {
		return err
	}
	farm, err := f.store.Get(r.Context(), id)
	if err != nil {
		return err
	}
	nodeID := r.PathValue("node")
	if err := wire.VerifyGrant(grant, farm, nodeID); err != nil {
		return err
	}
	if err := f.rates.key(farm.Owner); err != nil {
		return err
	}
	err = f.nodes.Update(r.Context(), store.Writer{}, nodeID, store.Edit{Granted: true, Apply: func(n *wire.Node, _ bool) error {
		if n.FarmID != farm.ID {
			return node.Errorf(node.Refused, "cannot let node %s join farm %d: it wants to join farm %d", nodeID, farm.ID, n.FarmID)
		}
		return join(n, grant, f.now())
	}})
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	return nil
}
