// Package firewall makes, checks and removes croft's nftables rules: those of
// the node's namespace ([Node]) and those of a tenant network's ([Network]). It
// owns croft's own tables and may touch nothing else: no other table, no
// conntrack entry, no interface.
//
// What the rules are is decided in plain functions (node.go, network.go,
// bridge.go). [ApplyNode] and [ApplyNetwork] then replace the tables in one
// transaction, so that there is no moment without rules and established
// connections go on. They return a [Fingerprint] of what the kernel has, which
// [Check] compares with what it has later; unless somebody changed any rule of
// the namespace meanwhile, that is one question to the kernel.
//
// The rules are as many as they are whatever the number of ports and ranges:
// those are elements of sets. Frames are judged where they enter the bridge, by
// the port they come from: a member has one hardware address, its own IPs, and
// no way to speak for anybody else. Two things are left to others: members'
// fragments of neighbour discovery aren't looked for, since no system since RFC
// 6980 takes them; and the kernel shows frames to LLDP's group address to no
// rule, though it learns from them who is where, so that ports mustn't learn:
// the bridge is told each member's place (a static forwarding entry).
//
// Errors start with "cannot" and have a kind: node.Invalid for rules that
// can't be, node.NotExist for a namespace or table that isn't there,
// node.Transient for what another try may change.
package firewall
