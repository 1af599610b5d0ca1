// Package broker lets other processes of the machine call the objects of an in-process bus, and
// read its streams, over a unix socket and redis' protocol.
//
// It owns the socket, its lock and its connections. Nobody can serve, publish or take
// another's request through it.
package broker
