// Package lifecycle is the life of a record: a pure table from what the node
// remembers of a reservation, and what has happened, to what it remembers next
// and what is to be done. It reads no clock and touches no disk, no bus and no
// goroutine. Only this package decides a record's phase.
package lifecycle
