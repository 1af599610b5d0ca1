package plane

import "github.com/croft-edge/croft/pkg/workload"

// present are workloads with their types.
type present struct {
	of map[string]workload.Type
	// count is how many there are of each type that there is.
	count map[workload.Type]int
}

func newPresent() present {
	return present{of: map[string]workload.Type{}, count: map[workload.Type]int{}}
}

// add adds a workload, or changes its type.
func (p present) add(id string, t workload.Type) {
	p.remove(id)
	p.of[id] = t
	p.count[t]++
}

// remove removes a workload, if it is there.
func (p present) remove(id string) {
	t, there := p.of[id]
	if !there {
		return
	}
	delete(p.of, id)
	if p.count[t]--; p.count[t] == 0 {
		delete(p.count, t)
	}
}
