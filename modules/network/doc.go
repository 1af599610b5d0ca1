// Package network is the module of users' private networks: it makes this
// node's part of them, and places in them for containers and VMs. On the bus it
// is network.network and network.tap.
//
// It owns on the node, all in one network namespace (the process's):
//
//   - {dir}/ID/state.json and {dir}/netns/ID: a network resource's state
//     (without any private key), and the file that keeps its namespace.
//     Both are for as long as the machine is up (package store).
//   - a namespace a network resource: a bridge with the gateway's addresses,
//     the members' ports, the tunnel (wg0), the uplink (up0), nftables tables
//     (packages wiring, tunnel and firewall).
//   - in the node's namespace: the other ends of the uplinks (cr….u…) and of
//     public interfaces (cr….p…), and one nftables table (packages wiring and host).
//     No other link, table, route or address is touched.
//   - the wg carrier: the process that holds userspace tunnels and the
//     members' DNS. It outlives this one (packages carrier and dns).
//
// Users' ranges may overlap: each network has a namespace of its own, and
// leaves it under its uplink's address only. Each part compares the node with the
// desired state first (see package links), so that making what exists, looking
// for drift and mending it are one piece of code.
//
// Here are the contract's calls, the order in which the parts of one network are
// brought to its desired state (builder), the members' joining and leaving (joiner),
// and the watch of the shared parts (watcher).
//
// It may not decide whether something is wanted: that is the engine's.
package network
