// Package node holds the contracts of the node's modules: what each promises
// on the bus, the values that cross it, and the kinds of error that survive it.
//
// It holds types and pure functions of them only. Every method of a contract
// is idempotent by its ID: creating what exists returns it, removing what is
// gone is a NotExist that callers forgive. A call that timed out may still
// happen later. Methods take no context (the stub's do) and return an error
// last; streams take a context and return a channel.
//
// Arguments and results are named structs, basic types, slices of them and
// named maps, which is what the stub generator can express. Sizes are bytes
// unless a name says otherwise. Everything a module makes is labelled with
// the ID of the reservation it was made for ("N-M"), and List returns it.
//
// The stubs are in package stubs, the suites every implementation must pass
// in package conformance.
package node
