// Package front is the door's own process: what reads the handshakes and requests of
// strangers has no rights on the node. It accepts connections, speaks TLS by a key that
// it makes for itself, reads HTTP, counts places, and carries requests to the agent and
// answers back, as package wire says. It decides nothing: who a request is by, the
// agent sees from the signature.
//
// The process is nobody on the node, without capabilities, in a user, PID, network,
// IPC and UTS namespace of its own. A filter of system calls lets it use what is open
// and accept connections; it opens nothing by a name, makes no socket and starts
// nothing.
package front
