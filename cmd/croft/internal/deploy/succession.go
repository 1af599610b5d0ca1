package deploy

import (
	"github.com/croft-edge/croft/cmd/croft/internal/plan"
	"github.com/croft-edge/croft/cmd/croft/internal/state"
	"github.com/croft-edge/croft/pkg/workload"
)

// containerName is the name in an entry's document; empty for none.
func containerName(e *state.Entry) string {
	r, err := e.Reservation()
	if err != nil || r.Type != workload.TypeContainer {
		return ""
	}
	data, err := workload.DataOf[workload.Container](r)
	if err != nil {
		return ""
	}
	return data.Name
}

// runsInPlaceOf is the ID of the replaced entry that still runs on the node instead of e;
// empty when there is none.
func runsInPlaceOf(e *state.Entry, look func(*state.Entry) (Observation, error)) string {
	for i := len(e.Before) - 1; i >= 0; i-- {
		if o, err := look(e.Before[i]); err == nil && phase(o.Verdict) == plan.Deployed {
			return e.Before[i].ID
		}
	}
	return ""
}
