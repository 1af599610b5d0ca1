// Package dhcp4 gets an interface's IPv4 lease by DHCP, and keeps it: it asks until somebody answers, renews and rebinds, and says when
// the lease has ended. What it got is applied by its caller.
//
// It opens sockets on one interface, and owns nothing else.
package dhcp4
