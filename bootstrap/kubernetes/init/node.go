package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/croft-edge/croft/bootstrap/kubernetes/init/components"
	"github.com/croft-edge/croft/bootstrap/kubernetes/init/overlay"
	"github.com/croft-edge/croft/pkg/clip"
)

// nodesPath is the collection of the cluster's machines.
const nodesPath = "/api/v1/nodes"

// nodeObject is a machine as the API server has it. Its kubelet says most of it: what can't be read is left out.
type nodeObject struct {
	Metadata struct {
		Name    string            `json:"name"`
		Labels  map[string]string `json:"labels"`
		Created string            `json:"creationTimestamp"`
	} `json:"metadata"`
	Spec struct {
		PodCIDR string `json:"podCIDR"`
	} `json:"spec"`
	Status struct {
		Addresses []struct {
			Type    string `json:"type"`
			Address string `json:"address"`
		} `json:"addresses"`
		Conditions []nodeCondition `json:"conditions"`
	} `json:"status"`
}

type nodeCondition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Message string `json:"message"`
	// Reported is when the kubelet reported last.
	Reported string `json:"lastHeartbeatTime"`
}

// longestMessage is how much of a condition's message is kept, in bytes.
const longestMessage = 1 << 10

// keepNode keeps of a machine what nodeObject has, of its labels and conditions those that matter; it leaves out one that can't be read.
func keepNode(raw json.RawMessage) json.RawMessage {
	var n nodeObject
	if json.Unmarshal(raw, &n) != nil {
		return nil
	}
	label, has := n.Metadata.Labels[components.ControlLabel]
	n.Metadata.Labels = nil
	if has {
		n.Metadata.Labels = map[string]string{components.ControlLabel: clip.Text(label, longestMessage)}
	}
	ready := n.condition()
	n.Status.Conditions = nil
	if ready != nil {
		ready.Message = clip.Text(ready.Message, longestMessage)
		n.Status.Conditions = []nodeCondition{*ready}
	}
	kept, err := json.Marshal(n)
	if err != nil {
		return nil
	}
	return kept
}

// condition is the one of readiness; nil if there is none.
func (n nodeObject) condition() *nodeCondition {
	at := slices.IndexFunc(n.Status.Conditions, func(c nodeCondition) bool { return c.Type == "Ready" })
	if at < 0 {
		return nil
	}
	return &n.Status.Conditions[at]
}

// ready reports whether the control plane takes the machine for ready. One that has gone isn't after 50 seconds.
func (n nodeObject) ready() bool {
	c := n.condition()
	return c != nil && c.Status == "True"
}

// reportedSince reports whether the kubelet has reported since a time.
func (c nodeCondition) reportedSince(t time.Time) bool {
	reported, err := time.Parse(time.RFC3339, c.Reported)
	return err == nil && !reported.Before(t)
}

// machine is the overlay's part of it.
func (n nodeObject) machine() (overlay.Machine, error) {
	for _, a := range n.Status.Addresses {
		if a.Type == "InternalIP" {
			return overlay.ParseMachine(n.Metadata.Name, a.Address, n.Spec.PodCIDR)
		}
	}
	return overlay.Machine{}, fmt.Errorf("machine %.80q has no address", n.Metadata.Name)
}

// byClaim orders machines by the weight of their claims to addresses: those that are there first, and then those that have been for
// longest. The API server says when a machine came, not the machine.
func byClaim(a, b nodeObject) int {
	rank := func(n nodeObject) int {
		if n.ready() {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Metadata.Created, b.Metadata.Created), cmp.Compare(a.Metadata.Name, b.Metadata.Name))
}
