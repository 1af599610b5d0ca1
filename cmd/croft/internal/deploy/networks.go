package deploy

import (
	"slices"

	"github.com/croft-edge/croft/cmd/croft/internal/plan"
	"github.com/croft-edge/croft/pkg/workload"
)

// newestNetworks are the networks of all without those that were updated since: a
// node has the one of a name that was signed last.
func newestNetworks(all []Observation) []Observation {
	type place struct{ node, network string }
	seen := map[place]bool{}
	var out []Observation
	for _, o := range slices.Backward(all) {
		at := place{o.Document.NodeID, networkName(o)}
		if at.network == "" || seen[at] || phase(o.Verdict) == plan.Failed {
			continue
		}
		seen[at] = true
		out = append(out, o)
	}
	return out
}

// networkName is a network's own name; empty for other types.
func networkName(o Observation) string {
	if o.Document.Type != workload.TypeNetwork {
		return ""
	}
	data, err := workload.DataOf[workload.Network](o.Document)
	if err != nil {
		return "" // no node takes it
	}
	return data.Name
}
