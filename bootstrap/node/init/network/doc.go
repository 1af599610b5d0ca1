// Package network brings the machine's own network up and keeps it up: it switches the Ethernet interfaces on, also those that appear
// later, gets their addresses by DHCP or sets the operator's, and writes what they say of name servers.
//
// It owns, on these interfaces only: addresses with a lifetime that aren't the kernel's own, the operator's static ones, routes with the kernel's mark for DHCP, the MTU, and how router
// advertisements are heard; and the file resolv.conf. It keeps nothing that has to survive: after a restart it finds its addresses and routes in the
// kernel, and takes them over.
//
// An address outlives its server: it is given up when its lease has ended, not when a cable is pulled. Nothing here waits for a network: a
// node whose network is away works on, and gets it when it is back.
package network
