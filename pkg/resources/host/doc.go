// Package host has the resources of what a node is: its configuration, its machine and clock, its modules, its
// store and explorer, its capacity, and whether it is ready. Types and pure functions only.
package host

// Node is the ID of the resources of which a node has one.
const Node = "node"
