package provision

import (
	"time"

	"github.com/croft-edge/croft/pkg/workload"
)

// spare is how long a type is left alone after a step of it used up its whole
// deadline: else each of its workloads would, and the other types wait for all.
const spare = time.Minute

// noteSlow notes that a step of that type used up its deadline, or didn't.
func (e *NodeEngine) noteSlow(t workload.Type, slow bool) {
	if slow {
		e.slow[t] = time.Now().Add(spare)
		return
	}
	delete(e.slow, t)
}

// isSlow reports whether a type is left alone. The first of it that is tried
// afterwards shows whether it has recovered.
func (e *NodeEngine) isSlow(t workload.Type) bool {
	return time.Now().Before(e.slow[t])
}
