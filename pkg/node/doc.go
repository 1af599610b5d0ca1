// Package node holds the contracts of the node's modules: their interfaces on
// the bus, the values that cross it, and the kinds of error that survive it.
//
// It holds types and pure functions of them only. Every method of a contract
// is idempotent by its ID: creating an existing object returns it, removing
// a missing one is a NotExist that callers forgive. A call that timed out may still
// happen later. Methods take no context (the stub's do) and return an error
// last; streams take a context and return a channel.
//
// Arguments and results are named structs, basic types, slices of them and
// named maps: the types that the stub generator supports. Sizes are bytes
// unless a name says otherwise. Modules label everything that they make with
// the ID of its reservation ("N-M"), and List returns the label.
//
// The stubs are in package stubs, the test suites for every implementation in
// package conformance.
package node
