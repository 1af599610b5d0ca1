// Package wal is the write-ahead log: segments that are only appended to, and
// the buffer of unwritten records.
//
// It owns the files log-N in the store's data folder. A Log writes and reads
// records by their Place; a Scanner reads a segment from its beginning. The
// store defines the records' meaning.
package wal
