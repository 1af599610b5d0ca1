package container

import (
	"context"
	"net/netip"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner/reference"
)

// volumesOf returns the hashes of the mounted volumes.
func volumesOf(data workload.Container) (_ []workload.Hash, err error) {
	out := make([]workload.Hash, len(data.Mounts))
	for i, m := range data.Mounts {
		if out[i], err = reference.Hash(m.VolumeHash); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// networkOf returns the network to join.
func networkOf(user string, data workload.Container) (reference.Network, error) {
	hash, err := reference.Hash(data.Network.NetworkHash)
	return reference.Network{User: user, Name: string(data.Network.NetworkID), Hash: hash, Field: "data.network"}, err
}

// mounts returns the mounted volumes' owners by the node's own records. It refuses a volume that
// isn't the user's, or not the one that the user named by hash: an explorer gives IDs, and may have
// given a volume's ID to another reservation.
func (p plan) mounts(owners reference.Owners) ([]reference.Owner, error) {
	out := make([]reference.Owner, len(p.spec.Mounts))
	for i, m := range p.spec.Mounts {
		owner, err := owners.Owner(m.Volume)
		if err != nil && node.KindOf(err) != node.NotExist {
			return nil, err
		}
		if err != nil || owner.User != p.spec.User || owner.Type != workload.TypeVolume {
			return nil, node.Errorf(node.Refused, "data.mounts[%d].volume_id is %q, must be a volume of yours on this node", i, m.Volume)
		}
		if named := p.volumes[i]; named != (workload.Hash{}) && named != owner.Hash {
			return nil, node.Errorf(node.Refused, "data.mounts[%d].volume_hash is %s, must be the hash of the reservation of volume %s, %s",
				i, named.Hex(), m.Volume, owner.Hash.Hex())
		}
		out[i] = owner
	}
	return out, nil
}

// volumes finds the mounted volumes' paths.
func (p *Provisioner) volumes(ctx context.Context, want *plan) error {
	owners, err := want.mounts(p.Owners)
	if err != nil {
		return err
	}
	for i := range want.spec.Mounts {
		m, owner := &want.spec.Mounts[i], owners[i]
		fs, err := p.Storage.InspectFilesystem(ctx, m.Volume)
		if node.KindOf(err) == node.NotExist {
			return node.Errorf(node.Transient, "volume %s isn't there yet", m.Volume)
		}
		if err != nil {
			return err
		}
		claim := node.Claim{Hash: owner.Hash.Hex(), AdoptUnlabelled: p.Past != nil && p.Past.Unlabelled(m.Volume)}
		if owner.Hash != (workload.Hash{}) && !claim.Adopts(fs.Hash) {
			// The file system with the volume's ID is another reservation's, left from before.
			return node.Errorf(node.Transient, "volume %s isn't there yet", m.Volume)
		}
		m.Source = fs.Path
	}
	return nil
}

// gateway finds the network's gateway, which is the container's name server.
func (p *Provisioner) gateway(ctx context.Context, want *plan) error {
	gateway, err := want.network.Gateway(ctx, p.Networks, p.Owners, func(ctx context.Context) (bool, error) { return p.begun(ctx, want.spec.ID) })
	if err != nil {
		return err
	}
	if prefix, err := netip.ParsePrefix(gateway); err == nil {
		gateway = prefix.Addr().String()
	}
	want.spec.DNS = []string{gateway}
	return nil
}

// begun reports whether the container or its layer is on the node.
func (p *Provisioner) begun(ctx context.Context, id string) (bool, error) {
	_, err := p.Storage.InspectFilesystem(ctx, id+layerSuffix)
	if node.KindOf(err) == node.NotExist {
		_, err = p.Containers.Inspect(ctx, id)
	}
	if node.KindOf(err) == node.NotExist {
		return false, nil
	}
	return err == nil, err
}
