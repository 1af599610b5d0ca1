package provisioner

import "github.com/croft-edge/croft/provision/lifecycle"

// Parallel is a Provisioner that may have more than one effect in flight.
type Parallel interface {
	// Slots is how many of its effects may be in flight at a time, at least 1.
	Slots() int
}

// Slots is how many of p's effects may be in flight at a time: one, unless p is
// Parallel.
func Slots(p Provisioner) int {
	if many, ok := p.(Parallel); ok {
		return max(many.Slots(), 1)
	}
	return 1
}

// FactsOf returns the facts about p's type for lifecycle's table; p may be nil.
func FactsOf(p Provisioner) (f lifecycle.TypeFacts) {
	if h, ok := p.(DataHolder); ok {
		f.HoldsData = h.HoldsData()
	}
	_, f.Stops = p.(Stopper)
	_, f.Prepares = p.(Preparer)
	_, f.Apart = p.(Successor)
	return f
}
