// Package fakenode is a node in memory, for tests: it implements the contracts of
// the modules (package node) as their documents say, without a disk, a kernel or
// processes. It owns nothing outside its memory.
//
// Each part (Storage, ZDB, Containers, Images, Networks, Debug,
// Identity, VMs, VMImages) passes the
// conformance suites that the real modules pass, through its stub: a fake can't
// promise what no module keeps, nor the other way round.
//
// A part's state is explicit: a test reads and changes it with the methods beside
// the contract's. Calls records what was called, and makes calls fail, wait or lose
// their answers. All is safe for concurrent use.
package fakenode
