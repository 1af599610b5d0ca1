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
// no way to speak for anybody else. Members' fragments of neighbour discovery
// aren't looked for: no system since RFC 6980 takes them.
//
// Errors start with "cannot" and have a kind: node.Invalid for rules that
// can't be, node.NotExist for a namespace or table that isn't there,
// node.Transient for what another try may change.
package firewall
