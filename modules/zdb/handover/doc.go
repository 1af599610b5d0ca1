// Package handover is the protocol by which a node hands listening sockets to a
// zdb that has no network of its own, and has them back when it starts anew. A
// socket belongs to the network namespace it was made in, so the zdb takes
// connections from outside without any way out of its own.
//
// The zdb's end (Serve) listens on a unix stream socket of mode 0600, and the
// node's end (Dial) connects. Messages are lines of JSON, each at most 4096
// bytes; descriptors go along with a line as SCM_RIGHTS, before its last byte.
//
//	zdb   {"version":1,"listeners":2}    at once, with 2 descriptors
//	node  {"take":1}                     with 1 descriptor
//	zdb   {"ok":true}                    it accepts connections on it by now
//	zdb   {"error":"cannot …"}           it doesn't
//
// Who sends waits for the answer before sending more. Members that aren't known
// are passed over; another version is refused by the node's end. A descriptor
// that isn't a listening stream socket is refused. A connection that breaks the
// rules, or stops in the middle of a line for 5 seconds, is closed; one that is
// silent stays open, and its end tells the node that the zdb has ended. What was
// taken stays with the zdb when the connection ends.
//
// Both ends share a listening socket (its open file, not a copy): who has it
// must not make it blocking, must take it out of its epoll before closing it, and
// finds it without life (accept fails with EINVAL, EPOLLHUP) once the other
// end has shut it down: then it is to be closed.
package handover
