// Package plane is the node's state: what it is, has and does, as resources that anybody on the machine may read and
// watch, and the controllers that keep them.
//
// Data goes one way: disk, engine, state, readers. The store's records are the truth and the engine decides; nothing is
// ever read back from a resource into a record, and a state that fails stops nothing. The only resources that others
// write are the operator's orders.
//
// Each controller declares its inputs and outputs: package github.com/cosi-project/runtime refuses it any other. On disk
// the package owns the file of the history.
package plane
