package disk

import (
	"io"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// Disk is a file system.
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
	// SyncDir waits until files created, renamed and removed in dir are so on disk.
	SyncDir(dir string) error
	// Boot identifies the present start of the machine; it differs after a power cut. 0: unknown.
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

// ReadZeros fills p from off on, with zeros behind the file's end.
func ReadZeros(f File, p []byte, off int64) error {
	n, err := f.ReadAt(p, off)
	if errors.Is(err, io.EOF) {
		clear(p[n:])
		return nil
	}
	return err
}

// IsFull says whether an error is that of a full disk, or of a quota that is used up.
func IsFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }
