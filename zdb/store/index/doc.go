// Package index is the slots of a store in the order in which entries came,
// in chunks: files of equally many slots.
//
// It owns the files index-N in the index folder. New slots are buffered and
// written by the 64 KiB; changes of slots that are in files wait in memory for
// the next checkpoint, because they may be on disk only after the records that
// they are about.
package index
