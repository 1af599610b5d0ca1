// Package network provisions users' private networks: this node's resource of
// one, keyed by its user and name. A second reservation of the same name changes
// the same network in place. Each method makes at most one change of a network,
// so there is nothing to undo.
package network

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
)

// Config holds the modules that the provisioner uses.
type Config struct {
	Networks  Networks
	Inspector Inspector
	Identity  provisioner.Identity
	provisioner.Hearing
}

// Provisioner provisions reservations of type network.
type Provisioner struct {
	Config
}

// New makes the provisioner of networks.
func New(c Config) *Provisioner { return &Provisioner{c} }

// Provision makes the network's part on this node, or changes the existing one
// to match r. Its result has no data, as the seed's.
func (p *Provisioner) Provision(ctx context.Context, r *workload.Reservation) (json.RawMessage, error) {
	spec, err := plan(ctx, r, p.Identity)
	if err != nil {
		return nil, errors.Wrapf(err, "cannot provision network %s", r.ID)
	}
	claim, err := provisioner.ClaimOf(r, nil)
	if err != nil {
		return nil, errors.Wrapf(err, "cannot provision network %s", r.ID)
	}
	spec.Hash = claim.Hash
	if _, err := p.Networks.Create(ctx, spec); err != nil {
		return nil, errors.Wrapf(err, "cannot provision network %s", r.ID)
	}
	return nil, nil
}

// Decommission removes the network from this node, whichever of its user's
// reservations its label names: the engine decides whose end removes it. Busy
// while it has members.
func (p *Provisioner) Decommission(ctx context.Context, r *workload.Reservation) error {
	data, err := workload.DataOf[workload.Network](r)
	if err != nil {
		return errors.Wrapf(node.WithKind(node.Invalid, err), "cannot decommission network %s", r.ID)
	}
	err = p.Networks.Delete(ctx, key(r.User, data.Name))
	if node.KindOf(err) == node.NotExist {
		return nil
	}
	return errors.Wrapf(err, "cannot decommission network %s", r.ID)
}

// Remove removes the networks that have the label. Networks of other names with
// the same ID and other hashes stay.
func (p *Provisioner) Remove(ctx context.Context, orphan provisioner.Label) error {
	all, err := p.Networks.List(ctx)
	if err != nil {
		return errors.Wrapf(err, "cannot remove network %s", orphan.ID)
	}
	for _, n := range all {
		if n.Label != orphan.ID || !orphan.Claim().Takes(n.Hash) {
			continue
		}
		if err := p.Networks.Delete(ctx, n.ID); err != nil && node.KindOf(err) != node.NotExist {
			return errors.Wrapf(err, "cannot remove network %s", orphan.ID)
		}
	}
	return nil
}

// List returns the IDs on the labels of the networks on the node.
func (p *Provisioner) List(ctx context.Context) ([]string, error) {
	seen, err := p.Look(ctx)
	return provisioner.IDs(seen), err
}

// Look returns the labels of the networks on the node, and each one's drift.
func (p *Provisioner) Look(ctx context.Context) (map[provisioner.Label]provisioner.Seen, error) {
	all, err := p.Networks.List(ctx)
	return seenOf(all), errors.Wrap(err, "cannot list networks")
}

// LookAt is Look of the networks with these labels.
func (p *Provisioner) LookAt(ctx context.Context, ids []string) (map[provisioner.Label]provisioner.Seen, error) {
	some, err := p.Inspector.Inspect(ctx, ids)
	return seenOf(some), errors.Wrap(err, "cannot look at networks")
}

func seenOf(networks []node.NetworkInfo) map[provisioner.Label]provisioner.Seen {
	seen := make(map[provisioner.Label]provisioner.Seen, len(networks))
	for _, n := range networks {
		l := provisioner.LabelOf(n.Label, n.Hash)
		if seen[l].Drift == "" { // an older croft labelled several networks with one ID and no hash
			seen[l] = provisioner.Seen{Drift: n.Drift}
		}
	}
	return seen
}

// key is the module's key for a network.
func key(user, name string) string {
	k := workload.NetworkKey(user, name)
	return hex.EncodeToString(k[:])
}

// plan converts the reservation's data to a request to the module. The
// private key is opened only here.
func plan(ctx context.Context, r *workload.Reservation, identity provisioner.Identity) (node.NetworkSpec, error) {
	data, err := workload.DataOf[workload.Network](r)
	if err != nil {
		return node.NetworkSpec{}, node.WithKind(node.Invalid, err)
	}
	for i, res := range data.Resources {
		if res.NodeID != r.NodeID {
			continue
		}
		private, err := provisioner.OpenSecret(ctx, identity, r, fmt.Sprintf("net_resources[%d].wg_private_key", i), res.PrivateKey)
		if err != nil {
			return node.NetworkSpec{}, err
		}
		return node.NetworkSpec{
			ID: key(r.User, data.Name), Label: r.ID, User: r.User, Name: data.Name, IPRange: data.IPRange, Subnet: res.Subnet,
			PrivateKey: string(private), PublicKey: res.PublicKey, ListenPort: res.ListenPort, Peers: res.Peers,
		}, nil
	}
	return node.NetworkSpec{}, node.Errorf(node.Invalid, "data.net_resources has no entry for node %s", r.NodeID)
}
