// Package wire is the protocol between the agent and the door's process. It uses two kinds of sockets,
// both created by the agent.
//
// The control socket preserves message boundaries (SOCK_SEQPACKET). A message is a kind (1 byte), a
// number (4 bytes, big-endian) that matches an answer to its question, and a body.
//
//	agent  Settings {JSON} + listening socket     first
//	door   Hello    TLS public key                 once
//	door   Proof n  challenge                      agent  Proof n  signature, empty when there is none
//	door   Link n                                  agent  Link n + socket, without one when there are too many
//	agent  Tunnel + connection
//	door   Reached i  times                        limit i of Settings was reached so often
//	agent  Beat n                                  door   Beat n
//
// A link is the stream of one user's TLS connection. It carries frames: a kind (1 byte), a length (4
// bytes), a payload.
//
//	door   Connection  binding, where from         first
//	door   Request
//	agent  Stay user                               door   Stayed, one byte
//	agent  Head, Body …, Flush …, End              the answer; another request may follow
//	agent  Upgrade                                 instead: bytes in both directions from here on
//
// Descriptors go from the agent to the door only. Each kind has a minimum and a maximum length; a side
// that breaks these, or the order, is disconnected. The agent trusts nothing that the door sends: this
// package and package userapi check it.
package wire
