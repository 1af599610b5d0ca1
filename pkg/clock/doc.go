// Package clock tells the time, how far the machine's clock can be trusted,
// and the node's total uptime. A wrong clock must not expire a workload or
// refuse a reservation, and the explorer's word must not remove data: code that
// compares a date asks a Trust, checks the level of the answer, and waits while
// that isn't enough. docs/adr/0016-time.md has the reasons.
package clock
