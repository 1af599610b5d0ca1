// Package reference checks what one workload's data names of its user's others: a user may name only their own,
// and by hash only the reservation that they mean. It holds the view of the node's records that this takes.
package reference
