package disk

import (
	"github.com/pkg/errors"
)

// TempSuffix ends the names of unfinished files.
const TempSuffix = ".new"

// WriteWhole replaces a file's content at once, by a rename.
func WriteWhole(d Disk, path string, b []byte) error {
	if err := WriteTemp(d, path, b); err != nil {
		return err
	}
	return d.Rename(path+TempSuffix, path)
}

// WriteTemp writes and syncs the content of path under its temporary name.
func WriteTemp(d Disk, path string, b []byte) error {
	f, err := d.Open(path+TempSuffix, true)
	if err != nil {
		return err
	}
	err = f.Truncate(0)
	if err == nil {
		err = f.WriteAt(b, nil, 0)
	}
	if err == nil {
		err = f.Sync()
	}
	f.Close()
	return errors.Wrapf(err, "cannot write %s", path)
}

// SyncFile waits until the disk has a file's content.
func SyncFile(d Disk, path string) error {
	f, err := d.Open(path, false)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
