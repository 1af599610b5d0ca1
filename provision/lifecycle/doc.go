// Package lifecycle is the life of a record: a pure table from a reservation's
// record and an event to its next record and the effects to carry out. It reads no
// clock and touches no disk, no bus and no goroutine. Only this package decides a
// record's phase.
package lifecycle
