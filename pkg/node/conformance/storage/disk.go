package storage

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node/conformance/expect"
)

// Disk reads and writes the files in file systems, as workloads do. Paths are below
// the file systems' own.
type Disk interface {
	// Write writes a short file, Read returns its content.
	Write(path string, data []byte) error
	Read(path string) ([]byte, error)
	// Fill writes size bytes that can't be compressed, and returns the number of those
	// that fit. EDQUOT when the file system is full.
	Fill(path string, size uint64) (uint64, error)
	Remove(path string) error
	// Names are the names in a folder.
	Names(dir string) ([]string, error)
	// Exists reports whether anything has that path.
	Exists(path string) (bool, error)
	// Sync returns once Used counts all that was written to a file system.
	Sync(dir string) error
}

// mounted is the Disk of file systems that the kernel has mounted.
type mounted struct{}

func (mounted) Write(path string, data []byte) error { return os.WriteFile(path, data, 0o600) }

func (mounted) Read(path string) ([]byte, error) { return os.ReadFile(path) }

func (mounted) Remove(path string) error { return os.Remove(path) }

func (mounted) Names(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func (mounted) Exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (mounted) Sync(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(f.Fd())), f.Close())
}

func (mounted) Fill(path string, size uint64) (uint64, error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	block, written := make([]byte, expect.MiB), uint64(0)
	for i := range block {
		block[i] = byte(i*7 + i>>9)
	}
	for written < size {
		n, err := f.Write(block)
		written += uint64(n)
		if err != nil {
			return written, err
		}
	}
	return written, f.Sync()
}
