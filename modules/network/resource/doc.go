// Package resource is a network resource, one node's part of a user's network, as
// data: the plan that its reservation asks for, its members and their places, and
// what follows from these (names, addresses, firewall rules, tunnel, DNS zone).
//
// A Network's State is written to disk by package store; a newer croft reads the
// State of an older one. Nothing here touches the node.
package resource
