// Package redis is a bus on a redis server: its connections, its blocking reads of queues, and
// its streams.
//
// It keeps connections and makes them again; the content of the frames is no business
// of its own.
package redis
