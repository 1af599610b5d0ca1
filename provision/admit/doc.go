// Package admit decides whether there is room for a workload beside those that
// the node has, and whether its user may have it here. It counts what is
// promised, not what is used, and decides purely; the numbers come in.
package admit
