// Package debug fans the node's log lines out to redis channels, one stream for
// each reservation. It owns the streams, in memory only, and nothing on disk.
//
// A Tap copies the lines of the process's logger. In a node of many processes a
// Forward in each other process sends its lines here, while there are streams.
// A stream has a bounded queue and a goroutine of its own, which connects by
// pkg/dial's rules, scrubs and publishes. Logging never waits for it: a full queue
// drops its oldest line, and the stream publishes how many were dropped, in the
// place where they are missing.
//
// This package's own log lines don't go into the streams: a failing stream would
// feed itself.
//
// On the bus it serves debugd.debug@0.1.0 and debugd.lines@0.1.0.
package debug
