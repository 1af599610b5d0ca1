// Package conformance holds the suites that every implementation of a contract
// must pass. A suite calls it through the interface of the contract's stub,
// methods with a context first, so that the same suite runs through the real
// stub on a bus.
//
// Each suite has "twice", "remove what isn't there" and "after a restart".
// Suites have the implementations' needs: root, and a real disk.
package conformance
