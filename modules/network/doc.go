// Package network is the module of users' private networks: it makes this
// node's part of them, and places in them for containers and VMs. On the bus it
// is network.network and network.tap.
//
// What it owns on the node, all of it in one network namespace (the process's):
//
//   - {dir}/ID/state.json and {dir}/netns/ID: what a network resource was made
//     from (without any private key), and the file that keeps its namespace.
//     Both are for as long as the machine is up.
//   - a namespace a network resource: a bridge with the gateway's addresses,
//     the members' ports, the tunnel (wg0), the uplink (up0), nftables tables.
//   - in the node's namespace: the other ends of the uplinks (cr….u…) and of
//     public interfaces (cr….p…), and one nftables table. No other link, table,
//     route or address is touched.
//   - the wg carrier: the process that holds userspace tunnels and the
//     members' DNS. It outlives this one.
//
// Users' ranges may overlap: each network has a namespace of its own, and
// leaves it under its uplink's address only. Everything is brought to what is
// wanted by comparing first (see plumber), so that making what exists, looking
// for drift and mending it are one piece of code.
//
// It may not decide whether something is wanted: that is the engine's.
package network
