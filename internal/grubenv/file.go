package grubenv

import (
	"io"
	"os"

	"github.com/pkg/errors"
)

// Read reads the environment block in a file.
func Read(path string) (*Block, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, errors.Wrap(err, "cannot read GRUB's environment block")
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, Size+1))
	if err != nil {
		return nil, errors.Wrapf(err, "cannot read GRUB's environment block %s", path)
	}
	b, err := Parse(content)
	return b, errors.WithMessagef(err, "%s", path)
}

// Write writes the block over that in a file, which must be there: in place, by one write, synced.
func Write(path string, b *Block) error {
	content, err := b.Encode()
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return errors.Wrap(err, "cannot write GRUB's environment block")
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return errors.Wrapf(err, "cannot write GRUB's environment block %s", path)
	}
	if !info.Mode().IsRegular() || info.Size() != Size {
		return errors.Errorf("cannot write GRUB's environment block %s: it must be a file of %d bytes already, is %v with %d", path, Size, info.Mode(), info.Size())
	}
	if _, err := file.WriteAt(content, 0); err != nil {
		return errors.Wrapf(err, "cannot write GRUB's environment block %s", path)
	}
	if err := file.Sync(); err != nil {
		return errors.Wrapf(err, "cannot write GRUB's environment block %s to the disk", path)
	}
	return errors.Wrapf(file.Close(), "cannot write GRUB's environment block %s", path)
}

// Update reads the block in a file, changes it, and writes it if that made a difference.
func Update(path string, change func(*Block) error) error {
	b, err := Read(path)
	if err != nil {
		return err
	}
	before, err := b.Encode()
	if err != nil {
		return err
	}
	if err := change(b); err != nil {
		return err
	}
	after, err := b.Encode()
	if err != nil || string(after) == string(before) {
		return err
	}
	return Write(path, b)
}
