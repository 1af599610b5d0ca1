// Package monitor reads the machine's properties and how much of it is in use.
// It owns nothing on disk and changes nothing.
//
// On the bus it serves monitor.system and monitor.host, both as 0.1.0 and, in the
// layout of the seed's nodes, as 0.0.1.
package monitor
