package uses

import (
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/inflight"
	"github.com/croft-edge/croft/provision/lifecycle"
)

// Keys are the keys that a reservation's effects conflict over: a container
// holds its network and its volumes shared, a network and a volume are changed
// alone, and containers of one name one after the other. All keys include their
// user: naming another user's network or volume delays only oneself.
func Keys(r *workload.Reservation) []inflight.Key {
	name, named := lifecycle.NameOf(r)
	if named && r.Type == workload.TypeNetwork {
		return []inflight.Key{{Name: nameKey(name)}}
	}
	if r.Type == workload.TypeVolume {
		return []inflight.Key{{Name: volumeKey(r.User, r.ID)}}
	}
	network, volumes := References(r)
	var keys []inflight.Key
	if named {
		keys = append(keys, inflight.Key{Name: nameKey(name)})
	}
	if network != "" {
		keys = append(keys, inflight.Key{Name: nameKey(workload.NetworkKey(r.User, network)), Shared: true})
	}
	seen := map[string]bool{}
	for _, id := range volumes {
		if !seen[id] {
			keys = append(keys, inflight.Key{Name: volumeKey(r.User, id), Shared: true})
		}
		seen[id] = true
	}
	return keys
}

func volumeKey(user, id string) string { return "volume " + user + " " + id }

func nameKey(k lifecycle.NameKey) string { return "name " + string(k[:]) }

// References returns the name of the network and the IDs of the volumes that a
// workload uses.
func References(r *workload.Reservation) (network string, volumes []string) {
	switch r.Type {
	case workload.TypeContainer:
		data, err := workload.DataOf[workload.Container](r)
		if err != nil {
			return "", nil
		}
		for _, m := range data.Mounts {
			volumes = append(volumes, m.VolumeID)
		}
		return string(data.Network.NetworkID), volumes
	case workload.TypeKubernetes:
		data, err := workload.DataOf[workload.Kubernetes](r)
		if err != nil {
			return "", nil
		}
		return string(data.NetworkID), nil
	}
	return "", nil
}
