// Package resource is a network resource, one node's part of a user's network, as
// data: the reserved plan, its members and their places, and the names, addresses,
// firewall rules, tunnel and DNS zone that follow from these.
//
// A Network's State is written to disk by package store; a newer croft reads the
// State of an older one. Nothing here touches the node.
package resource
