package storage

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Image reads and writes the images of virtual disks, as virtual machines do. Paths are
// those of the disks; positions and sizes are bytes, multiples of 4096.
type Image interface {
	Write(path string, at uint64, data []byte) error
	Read(path string, at uint64, size int) ([]byte, error)
	// Discard gives the space of a range back; it reads as zeroes then.
	Discard(path string, at, size uint64) error
	// Stat is the size of an image, and whether anybody but root may open it.
	Stat(path string) (size uint64, open bool, err error)
	// Sync returns once Used counts all that was written to an image.
	Sync(path string) error
}

// imageFile is the Image of disks that are files.
type imageFile struct{}

func with(path string, do func(f *os.File) error) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(do(f), f.Close())
}

func (imageFile) Write(path string, at uint64, data []byte) error {
	return with(path, func(f *os.File) error {
		_, err := f.WriteAt(data, int64(at))
		return errors.Join(err, f.Sync())
	})
}

func (imageFile) Read(path string, at uint64, size int) ([]byte, error) {
	data := make([]byte, size)
	return data, with(path, func(f *os.File) error {
		_, err := f.ReadAt(data, int64(at))
		return err
	})
}

func (imageFile) Discard(path string, at, size uint64) error {
	return with(path, func(f *os.File) error {
		return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(at), int64(size))
	})
}

func (imageFile) Stat(path string) (size uint64, open bool, err error) {
	info, err := os.Lstat(path)
	if err != nil {
		return 0, false, err
	}
	return uint64(info.Size()), !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0, nil
}

func (imageFile) Sync(path string) error {
	return with(path, func(f *os.File) error { return unix.Syncfs(int(f.Fd())) })
}
