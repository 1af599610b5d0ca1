package container

import (
	"fmt"
	"maps"
	"regexp"
	"strings"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/provisioner/reference"
)

// plan holds the requests to the modules for one reservation.
type plan struct {
	claim provisioner.Claim
	image node.ImageSpec
	// spec lacks the parts that only the modules know: the volumes' paths, the
	// layer's and the name servers.
	spec    node.ContainerSpec
	network reference.Network
	member  node.MemberSpec
	// volumes are the hashes of the mounted volumes, in the mounts' order: zero where the ID alone counts.
	volumes []workload.Hash
	// secrets are the sealed variables, auth the sealed image_auth.
	secrets map[string]string
	auth    string
}

// claimed returns the plan with the reservation's claim on each object it makes.
func (p plan) claimed(c provisioner.Claim) plan {
	p.claim = c
	p.image.Hash, p.image.AdoptUnlabelled = c.Hash, c.AdoptUnlabelled
	p.spec.Hash, p.spec.AdoptUnlabelled = c.Hash, c.AdoptUnlabelled
	p.member.Hash, p.member.AdoptUnlabelled = c.Hash, c.AdoptUnlabelled
	return p
}

// planOf makes the plan from the reservation's data alone.
func planOf(r *workload.Reservation) (plan, error) {
	data, err := workload.DataOf[workload.Container](r)
	if err != nil {
		return plan{}, node.WithKind(node.Invalid, err)
	}
	if data.Capacity.CPU < 1 || data.Capacity.Memory < 1 {
		return plan{}, node.Errorf(node.Invalid, "data.capacity is %d cores and %d MiB, must be at least 1 of each", data.Capacity.CPU, data.Capacity.Memory)
	}
	if data.FlistStorage != "" {
		return plan{}, node.Errorf(node.Invalid, "data.flist_storage is %q, must be empty: images are OCI images", data.FlistStorage)
	}
	words, err := workload.SplitEntrypoint(data.Entrypoint)
	if err != nil {
		return plan{}, node.WithKind(node.Invalid, err)
	}
	volumes, err := volumesOf(data)
	if err != nil {
		return plan{}, err
	}
	network, err := networkOf(r.User, data)
	if err != nil {
		return plan{}, err
	}
	ips := addresses(data.Network)
	p := plan{
		image: node.ImageSpec{Label: r.ID, Reference: data.FList, User: r.User},
		spec: node.ContainerSpec{
			ID: r.ID, User: r.User, Entrypoint: words, Env: node.Env{}, Secrets: node.Env{}, Hostname: r.ID,
			CPU: uint64(data.Capacity.CPU), Memory: data.Capacity.Bytes(), Interactive: data.Interactive,
			ReadOnly: data.ReadOnly, NoCapabilities: data.NoCapabilities, NonRoot: data.NonRoot,
		},
		network: network, volumes: volumes, secrets: data.SecretEnv, auth: data.ImageAuth,
	}
	p.member = node.MemberSpec{Network: network.Key(), Member: r.ID, Name: r.ID, IPs: ips, PublicIP6: data.Network.PublicIP6}
	if data.Interactive {
		p.spec.Terminal, p.spec.Names = ips, names(r.ID, network.Name)
	}
	maps.Copy(p.spec.Env, data.Env)
	for _, m := range data.Mounts {
		p.spec.Mounts = append(p.spec.Mounts, node.MountSpec{Volume: m.VolumeID, Target: m.Mountpoint})
	}
	return p, nil
}

// label is the form a network's name must have to be a domain of its members' names.
var label = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// names are a member's names in the network's DNS, without those in croft's own
// zone.
func names(member, network string) []string {
	out := []string{member}
	if network = strings.ToLower(network); label.MatchString(network) {
		out = append(out, member+"."+network)
	}
	return out
}

func addresses(n workload.ContainerNetwork) []string {
	out := make([]string, 0, len(n.IPs))
	for _, ip := range n.IPs {
		out = append(out, ip.String())
	}
	return out
}

// layerSuffix follows a reservation's ID in the name of its container's layer:
// no volume has such a name.
const layerSuffix = ".layer"

// told describes a pull's progress, for people.
func told(i node.Image) string {
	const mib = 1 << 20
	switch {
	case i.Unpacking:
		return "its image is being unpacked"
	case i.Total > 0:
		return fmt.Sprintf("its image: %d of %d MiB (%d %%)", i.Done/mib, (i.Total+mib-1)/mib, 100*min(i.Done, i.Total)/i.Total)
	}
	return "its image: asking the registry"
}
