// Package carrier is the process that holds a node's userspace WireGuard
// devices and the DNS servers of its networks, so that they outlive the agent,
// and the client that starts it, finds it and speaks to it.
//
// There is one a run folder. Below {run}/wg it owns:
//
//	lock, start.lock    held by the carrier while it runs; by the process that starts one
//	pid                 its process ID, for people
//	socket              control, 0600, only for the same user
//	log, log.1          its log, at most 1 MiB each
//
// A device's link lies in the namespace of a tenant and is persistent: with
// its addresses and routes it outlives even the carrier, and the next one
// attaches to it. UDP sockets and questions to other DNS servers are of the
// namespace that the carrier was started in.
//
// The carrier keeps nothing on disk: its client sets devices and zones again after
// each start. It may not know of networks, members or reservations, and it
// changes no addresses, routes or firewall rules.
package carrier
