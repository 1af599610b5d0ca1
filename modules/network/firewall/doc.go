// Package firewall makes, checks and removes croft's nftables rules: those of
// the node's namespace ([Node]) and those of a tenant network's ([Network]). It
// owns croft's own tables and may touch nothing else: no other table, no
// conntrack entry, no interface.
//
// Pure functions (node.go, network.go, bridge.go) compute the rules.
// [ApplyNode] and [ApplyNetwork] then replace the tables in one transaction, so
// that there is no moment without rules and established connections go on. They
// return a [Fingerprint] of the kernel's tables, which [Check] compares with the
// tables later; unless some rule of the namespace was changed meanwhile, that is
// one question to the kernel.
//
// The rules are as many as they are whatever the number of ports and ranges:
// those are elements of sets. Frames are judged where they enter the bridge, by
// the port they come from: a member has one hardware address, its own IPs, and
// no way to speak for anybody else. Two things are left to others: members'
// fragments of neighbour discovery aren't looked for, since no system since RFC
// 6980 takes them; and the kernel shows frames to LLDP's group address to no
// rule, though the bridge learns MAC addresses from them. So learning is off on
// ports, and each member has a static forwarding entry.
//
// Errors start with "cannot" and have a kind: node.Invalid for rules that
// can't be, node.NotExist for a namespace or table that isn't there,
// node.Transient for failures that a retry may avoid.
package firewall
