// Package debug fans the node's log lines out to redis channels, one stream for
// each reservation. It owns the streams, in memory only, and nothing on disk.
//
// A Tap takes the lines off the process's logger. In a node of many processes a
// Forward in each other process brings its lines here, while somebody wants
// them. A stream has a bounded queue and a goroutine of its own, which connects
// by pkg/dial's rules, scrubs and publishes. Nothing waits for it: when the queue
// is full the oldest line goes, and the stream says how many were dropped, in
// the place where they are missing.
//
// What this package logs doesn't go into the streams: a stream that fails would
// feed itself.
//
// On the bus it serves debugd.debug@0.1.0 and debugd.lines@0.1.0.
package debug
