// Package handover is the protocol by which a node hands listening sockets to a
// zdb that has no network of its own, and gets them back when the node's agent restarts.
// A socket belongs to the network namespace it was made in, so the zdb takes connections
// from outside without a network of its own.
//
// The zdb's end (Server) listens on a unix stream socket of mode 0600, and the
// node's end (Dial) connects. Messages are lines of JSON, each at most 4096
// bytes; descriptors go along with a line as SCM_RIGHTS, before its last byte.
//
//	zdb   {"version":1,"listeners":2}    at once, with 2 descriptors
//	node  {"take":1}                     with 1 descriptor
//	zdb   {"ok":true}                    it accepts connections on it by now
//	zdb   {"error":"cannot …"}           it doesn't
//
// The sender of a line waits for the answer. Unknown members are ignored; the node
// refuses another version. A descriptor
// that isn't a listening stream socket is refused. A connection that breaks the
// rules, or stops in the middle of a line for 5 seconds, is closed; a silent one
// stays open, and its end tells the node that the zdb has ended. The zdb keeps the
// sockets that it took when the connection ends.
//
// Both ends share a listening socket (its open file, not a copy): neither may make it
// blocking, and each must take it out of its epoll before closing it. Once one end has
// shut it down, accept fails with EINVAL (EPOLLHUP) at the other, which closes it.
package handover
