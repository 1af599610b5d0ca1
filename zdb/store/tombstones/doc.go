// Package tombstones is the file of tombstones: places of records whose entry
// was overwritten or deleted, when the record that did so was compacted away.
//
// An index that is rebuilt from the log would take such an entry for a live one.
// It owns the file "kills" in the store's data folder.
package tombstones
