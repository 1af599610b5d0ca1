package projects

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/croft-edge/croft/cmd/croft/internal/deploy"
	"github.com/croft-edge/croft/cmd/croft/internal/lifetime"
	"github.com/croft-edge/croft/cmd/croft/internal/render"
	"github.com/croft-edge/croft/cmd/croft/internal/verdict"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// row is a document: a reservation as it is shown. docs/cli.md explains the members.
type row struct {
	Name     string          `json:"name"`
	ID       string          `json:"id"`
	Type     workload.Type   `json:"type"`
	Node     string          `json:"node"`
	User     string          `json:"user"`
	State    workload.State  `json:"state"`
	Verified bool            `json:"verified"`
	Created  time.Time       `json:"created"`
	Expires  time.Time       `json:"expires"`
	Detail   string          `json:"detail"`
	Error    string          `json:"error"`
	Problem  string          `json:"problem"`
	Data     json.RawMessage `json:"data"`
	Birth    string          `json:"birth,omitempty"`
	Sequence int64           `json:"sequence,omitempty"`
	// At is the node's own answer about a container of the user.
	At *nodeView `json:"at_node,omitempty"`
	// deletion is whether its deletion is signed.
	deletion bool
}

func (r row) label() string {
	if r.Name != "" {
		return r.Name
	}
	return r.ID
}

// restarting reports whether a container that its node has signed as ok has ended by
// itself and waits to be started again.
func (r row) restarting() bool {
	return r.State == workload.StateOK && r.At != nil && r.At.Container != nil && r.At.Container.State == node.ContainerWaiting
}

func rowOf(name string, o deploy.Observation, now time.Time) row {
	r := o.Document
	out := row{
		Name: name, ID: r.ID, Type: r.Type, Node: r.NodeID, User: r.User, State: o.State, Verified: o.Verified,
		Created: r.Created, Expires: o.Expires, Error: o.Error, Problem: o.Problem, Data: o.Data,
	}
	if o.Verified {
		out.Birth, out.Sequence = o.Result.Birth, o.Result.Sequence
	}
	if len(out.Data) == 0 {
		out.Data = json.RawMessage("null")
	}
	out.Detail = detail(o, now)
	return out
}

// detail explains the state to a person.
func detail(o deploy.Observation, now time.Time) string {
	late := !now.Before(o.Expires)
	switch {
	case o.Problem != "":
		return o.Problem
	case o.Error != "":
		return o.Error
	case o.State == verdict.Unpushed:
		return "signed; `croft apply` pushes it"
	case o.State == verdict.Lost:
		return deploy.Unknown(o.Expires)
	case late && !workload.Ended(o.State):
		return "it has expired, and the node hasn't confirmed that yet"
	case o.State == verdict.Pending:
		return "the node hasn't answered yet"
	case o.State == workload.StateOK:
		return result(o.Document.Type, o.Data)
	}
	return ""
}

// result is a workload's answer in a few words.
func result(t workload.Type, data json.RawMessage) string {
	switch t {
	case workload.TypeContainer:
		var v workload.ContainerResult
		if json.Unmarshal(data, &v) == nil {
			return fmt.Sprintf("container %s, %s %s", v.ID, v.IPv4, v.IPv6)
		}
	case workload.TypeVolume:
		var v workload.VolumeResult
		if json.Unmarshal(data, &v) == nil {
			return "volume " + v.ID
		}
	case workload.TypeZDB:
		var v workload.ZDBResult
		if json.Unmarshal(data, &v) == nil {
			return fmt.Sprintf("namespace %s at %s port %d", v.Namespace, v.IP, v.Port)
		}
	case workload.TypeKubernetes:
		var v workload.KubernetesResult
		if json.Unmarshal(data, &v) == nil {
			return fmt.Sprintf("VM %s, %s", v.ID, v.IP)
		}
	}
	return ""
}

func statusRows(rows []row, now time.Time) render.Rows {
	out := render.Rows{Head: []string{"NAME", "ID", "TYPE", "NODE", "STATE", "EXPIRES", "DETAIL"}}
	for _, r := range rows {
		state := string(r.State)
		switch {
		case r.Verified && r.Problem != "":
			state += " (stale)"
		case r.restarting():
			state = "restarting"
		}
		out.Rows = append(out.Rows, []string{r.Name, r.ID, string(r.Type), r.Node, state, expiry(r.Expires, now), r.Detail})
	}
	return out
}

func expiry(t, now time.Time) string {
	if left := t.Sub(now); left > 0 {
		return fmt.Sprintf("%s (%s)", render.Clock(t), lifetime.Text(left))
	}
	return render.Clock(t)
}
