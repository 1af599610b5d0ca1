// Package work has the resources of what the node does: its users' workloads, what nobody wants, the operator's orders,
// what has happened, and the programs that run when it does. Types and pure functions only.
package work
