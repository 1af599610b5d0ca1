// Package store keeps the entries of one zdb namespace on disk.
//
// It owns two folders (which may be the same): a log of everything that was
// written, in segments, and an index of slots in the order in which entries
// came. The log is the truth; a lost index is rebuilt from it.
// The file positions that clients see (cursors, HISTORY positions, DATA RAW
// offsets, rotation) are those that 0-db's own files would have: see Layout.
//
// A Store belongs to one goroutine, the event loop's. Set and Delete take
// effect at once for readers and are on disk after Flush; a failing Flush undoes the
// operations since the last one.
//
// Its parts, from below:
//
//   - packages disk, format, wal (the log), index, keytable and tombstones;
//   - virtualFiles, ledger and damage: 0-db's files, the counts of live entries,
//     and the known damaged records;
//   - batch and writer: the operations that aren't written yet, their undo, and
//     their way to the disk;
//   - mode: userKeys or sequentialIDs, how entries are named and found;
//   - reserve, gate and space: room that is set aside, whether values are taken,
//     and how much disk is in use;
//   - compactor, checkpointer and jobs, run by the housekeeper;
//   - recovery and replay: the opening of a store.
package store
