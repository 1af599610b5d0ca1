// Package admit decides whether there is room for a workload beside the node's others, and
// whether its user may have it here. It counts promised room, not used room, and is pure:
// its callers pass in the numbers.
package admit
