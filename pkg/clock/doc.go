// Package clock tells the time, how far the machine's clock can be trusted,
// and how long the node has been up in all. A wrong clock must not expire a
// workload or refuse a reservation, and what the explorer says must not remove
// data: whoever compares a date asks a Trust, looks at the level of the answer,
// and waits while that isn't enough. docs/adr/0016-time.md has the reasons.
package clock
