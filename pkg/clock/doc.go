// Package clock tells the time, and how far the machine's clock can be
// trusted. A wrong clock must not expire a workload or refuse a reservation:
// whoever compares a date asks a Trust, and waits while the answer is no.
package clock
