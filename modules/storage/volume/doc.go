// Package volume owns the things on a mounted pool:
//
//	volumes/<name>    one subvolume a file system, with a quota
//	vdisks/<name>     one subvolume a virtual disk, with a quota, and its image in it
//	node/state        a subvolume with a quota for the state of the node itself, on at most one pool
//
// and beside the pool an index, which has the names of the first two for when the pool can't
// be read. Its things carry the extended attribute trusted.croft.filesystem,
// trusted.croft.vdisk or trusted.croft.state; anything without one is never listed and never touched. A name
// appears when the thing is complete; until then, and while it is removed, it has a
// temporary name, which Prepare clears away after a crash.
//
// The label is the truth of a thing's size; its limit and its image follow it. Whether
// a pool has room is its caller's to know.
package volume
