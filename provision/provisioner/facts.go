package provisioner

import "github.com/croft-edge/croft/provision/lifecycle"

// Parallel is a Provisioner that may have more than one effect in flight.
type Parallel interface {
	// Slots is how many effects of it may be in flight at a time, 1 at least.
	Slots() int
}

// Slots is how many effects of p may be in flight at a time: one, unless it says
// otherwise.
func Slots(p Provisioner) int {
	if many, ok := p.(Parallel); ok {
		return max(many.Slots(), 1)
	}
	return 1
}

// FactsOf is what the table of lifecycle is told about p's type; p may be nil.
func FactsOf(p Provisioner) (f lifecycle.TypeFacts) {
	if h, ok := p.(DataHolder); ok {
		f.HoldsData = h.HoldsData()
	}
	_, f.Stops = p.(Stopper)
	_, f.Prepares = p.(Preparer)
	_, f.Apart = p.(Successor)
	return f
}
