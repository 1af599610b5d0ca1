// Package store keeps the entries of one zdb namespace on disk.
//
// It owns two folders (which may be the same): a log of everything that was
// written, in segments, and an index of slots in the order in which entries
// came. The log is the truth; the index is made from it again when it is lost.
// What clients see as files (cursors, HISTORY positions, DATA RAW offsets,
// rotation) are those that 0-db's own files would have: see Layout.
//
// A Store belongs to one goroutine, the event loop's. Set and Delete take
// effect at once for those who read and are on disk after Flush; what was written since the last
// Flush is undone when Flush fails.
package store
