// Package wire is what the agent and the door's process say to each other. It has
// two kinds of sockets, both made by the agent.
//
// The control socket keeps messages apart (SOCK_SEQPACKET): a kind (1 byte), a number
// (4 bytes, big-endian) by which an answer finds its question, and a body.
//
//	agent  Settings {JSON} + listening socket     first
//	door   Hello    TLS public key                 once
//	door   Proof n  challenge                      agent  Proof n  signature, empty when there is none
//	door   Link n                                  agent  Link n + socket, without one when there are too many
//	agent  Tunnel + connection
//	door   Reached i  times                        limit i of Settings was reached so often
//	agent  Beat n                                  door   Beat n
//
// A link is a stream for one TLS connection of a user, of frames: a kind (1 byte), a
// length (4 bytes), bytes.
//
//	door   Connection  binding, where from         first
//	door   Request
//	agent  Stay user                               door   Stayed, one byte
//	agent  Head, Body …, Flush …, End              the answer; another request may follow
//	agent  Upgrade                                 instead: bytes in both directions from here on
//
// Descriptors go from the agent to the door only. Each kind has its least and its
// most length; whoever breaks that, or the order, is hung up on. The agent believes
// nothing of what the door says: that is what is checked here and in package door.
package wire
