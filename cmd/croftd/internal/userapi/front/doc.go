// Package front is the door's own process: the code that parses the handshakes and requests of
// strangers has no rights on the node. It accepts connections, speaks TLS with a key that it generates,
// reads HTTP, counts places, and carries requests to the agent and answers back by the protocol of
// package wire. It decides nothing: the agent learns the user from the request's signature.
//
// The process is nobody on the node, without capabilities, in a user, PID, network, IPC and UTS
// namespace of its own. A system call filter lets it use its open descriptors and accept connections;
// it can open no path, create no socket and start no process.
package front
