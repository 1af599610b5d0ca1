// Package redis is a bus on a redis server: its connections, its blocking reads of queues, and
// its streams.
//
// It keeps connections and makes them again; what of the node it carries is no business of
// its own.
package redis
