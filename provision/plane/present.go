package plane

import "github.com/croft-edge/croft/pkg/workload"

// present are workloads with their types.
type present struct {
	of map[string]workload.Type
	// count is how many there are of each type that there is.
	count map[workload.Type]int
	// changed has an element after the types that there are have changed.
	changed chan struct{}
}

func newPresent() present {
	return present{of: map[string]workload.Type{}, count: map[workload.Type]int{}, changed: make(chan struct{}, 1)}
}

// add adds a workload, or changes its type.
func (p present) add(id string, t workload.Type) {
	if was, there := p.of[id]; there && was == t {
		return
	}
	p.remove(id)
	p.of[id] = t
	if p.count[t]++; p.count[t] == 1 {
		p.tell()
	}
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
		p.tell()
	}
}

func (p present) tell() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}
