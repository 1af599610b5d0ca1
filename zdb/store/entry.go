package store

import (
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/zdb/store/format"
)

// MaxKey is the longest key, in bytes.
const MaxKey = format.MaxKey

// The errors of Set, Delete, Value and Raw. Other errors come from the disk.
var (
	ErrKey       = errors.New("a key must have 1 to 255 bytes")
	ErrValue     = errors.New("a value may have at most 64 MiB")
	ErrUnknownID = errors.New("no entry has this id")
	ErrWorm      = errors.New("the key is there and may not be changed")
	ErrNoSpace   = errors.New("no space left in the namespace")
	ErrDiskFull  = errors.New("the disk is full")
	ErrFull      = errors.New("no memory left for more keys")
	ErrDamaged   = errors.New("the entry is damaged on disk")
	ErrGone      = errors.New("the entry's old value is gone: its space was needed")
	ErrEOF       = errors.New("the offset is behind the end of the data file")
	ErrOffset    = errors.New("no entry begins at this offset")
)

// Position is a place in 0-db's index: a file and a byte offset in it. The
// zero value is no place.
type Position = format.Position

// SetOptions is how Set treats one value.
type SetOptions struct {
	At   uint32 // the entry's time, in seconds since 1970
	Worm bool   // ErrWorm if the key is there
}

// Entry is one version of a value, without the value.
type Entry struct {
	Key      []byte // valid until the store's next call; nil when its space was needed
	Length   uint32 // of the payload, in bytes
	CRC      uint32 // of the payload, as 0-db computes it
	Time     uint32 // in seconds since 1970
	Deleted  bool   // deleted, or there is a newer version
	Position Position

	slot uint64
}

// RawEntry is an entry of the data file, deletions too.
type RawEntry struct {
	Key      []byte // valid until the store's next call, as is Value
	Previous uint32 // offset of the entry before it
	CRC      uint32
	Deleted  bool
	Time     uint32 // in seconds since 1970
	Value    []byte
}

// Stats are a store's counters. Bytes unless said otherwise.
type Stats struct {
	Entries   uint64 // live entries
	DataBytes uint64 // their payload
	KeyBytes  uint64 // their keys
	// Next is 0-db's counter: the next id in sequential mode; in user mode the index
	// entries there were at the start and the keys that came since.
	Next        uint64
	File        uint32 // the active file
	DataOffset  uint32 // where its next data entry will be
	IndexOffset uint32 // where its next index entry will be
	Disk        uint64 // all files of the store
	Memory      uint64 // the keys' table
	Damaged     uint64 // records found damaged since the store was opened
}
