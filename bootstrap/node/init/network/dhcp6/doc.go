// Package dhcp6 asks an interface's DHCPv6 servers: for an address, where the router says that they give them, and else only for name and
// time servers. Addresses by router advertisements are the kernel's.
//
// It opens sockets on one interface, and owns nothing else.
package dhcp6
