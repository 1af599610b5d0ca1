package project

import (
	"slices"

	"github.com/croft-edge/croft/pkg/workload"
)

// Target is a reservation that a workload's data refers to.
type Target struct {
	ID string
	// Hash is the signed document's hash, as data holds it (see workload.Hash.Hex).
	Hash string
}

// Targets are the reservations that a workload's data refers to.
type Targets struct {
	// Workloads are those of the project file, by name.
	Workloads map[string]Target
	// Volumes and Networks are the known hashes of volumes and networks outside of
	// the file: by the volume's ID and by the network's name.
	Volumes  map[string]string
	Networks map[string]string
}

// hashRef is a place in a workload's data for the hash of another workload's
// reservation.
type hashRef struct{ name string }

// The members that name a volume or a network, and those that hold its hash.
const (
	volumeID    = "volume_id"
	volumeHash  = "volume_hash"
	networkID   = "network_id"
	networkHash = "network_hash"
)

// addHash puts a place for the hash of the workload target beside r; false when
// the file says a hash there.
func addHash(tree any, r *ref, target string) bool {
	ok := true
	eachReference(tree, func(in map[string]any, id, hash string) {
		if in[id] != any(r) {
			return
		}
		if _, said := in[hash]; said {
			ok = false
			return
		}
		in[hash] = &hashRef{target}
	})
	return ok
}

// eachReference calls see for each object of data that names a volume or a
// network, with the members for its ID and its hash.
func eachReference(tree any, see func(in map[string]any, id, hash string)) {
	switch t := tree.(type) {
	case map[string]any:
		for id, hash := range map[string]string{volumeID: volumeHash, networkID: networkHash} {
			if _, names := t[id]; names {
				see(t, id, hash)
			}
		}
		for name, below := range t {
			// These have names of the user's.
			if name != "env" && name != "secret_env" {
				eachReference(below, see)
			}
		}
	case []any:
		for _, below := range t {
			eachReference(below, see)
		}
	}
}

// addOutside adds the hashes of reservations outside of the file to filled data,
// where these are known and the file doesn't have them.
func (k Targets) addOutside(tree any) {
	eachReference(tree, func(in map[string]any, id, hash string) {
		if _, said := in[hash]; said {
			return
		}
		known := k.Volumes
		if id == networkID {
			known = k.Networks
		}
		if text, _ := in[id].(string); known[text] != "" {
			in[hash] = known[text]
		}
	})
}

// Outside returns the IDs of the volumes and the names of the networks that the
// data names itself, without a hash: those of other projects as a rule.
func (w *Workload) Outside() (volumes, networks []string) {
	if w.Type != workload.TypeContainer && w.Type != workload.TypeKubernetes {
		return nil, nil
	}
	eachReference(w.body.data, func(in map[string]any, id, hash string) {
		text, outside := in[id].(string)
		if _, said := in[hash]; said || !outside {
			return
		}
		if id == volumeID {
			volumes = append(volumes, text)
		} else {
			networks = append(networks, text)
		}
	})
	slices.Sort(volumes)
	return slices.Compact(volumes), networks
}
