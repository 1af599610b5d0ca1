package disk

import (
	"errors"
	"io"

	"golang.org/x/sys/unix"
)

// Disk is the files that a store needs, so that tests can fill them up, cut their power
// and damage them.
type Disk interface {
	MakeDir(path string) error
	// Lock keeps other processes, and other stores of this one, from opening dir.
	Lock(dir string) (unlock func(), err error)
	// Open opens a file for reading and writing. Without create it must be there.
	Open(path string, create bool) (File, error)
	Remove(path string) error
	Rename(from, to string) error
	// List answers the files in a folder with their sizes, without folders.
	List(dir string) (map[string]int64, error)
	// SyncDir makes what was created, renamed and removed in dir last.
	SyncDir(dir string) error
	// Boot is a number of the machine's start: after a power cut it is another. 0: it isn't known.
	Boot() uint64
}

// File is an open file. Reads and writes don't move a position.
type File interface {
	io.ReaderAt
	// WriteAt writes a and then b at off.
	WriteAt(a, b []byte, off int64) error
	Truncate(size int64) error
	// Allocate sets n bytes from off on aside, so that writing them needs no more room. The file's
	// size stays. EOPNOTSUPP when the file system can't.
	Allocate(off, n int64) error
	// Sync waits until the disk has the file's content.
	Sync() error
	Close() error
}

// ReadZeros fills p from off on; what is behind the file's end is zeros.
func ReadZeros(f File, p []byte, off int64) error {
	n, err := f.ReadAt(p, off)
	if errors.Is(err, io.EOF) {
		clear(p[n:])
		return nil
	}
	return err
}

// IsFull says that an error is of a disk, or of a quota on it, that has no room.
func IsFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }
