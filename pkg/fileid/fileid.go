// Package fileid tells a file from others, and from itself after a change: by what the kernel knows of it, or by its content. It
// owns nothing.
package fileid

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// ID is a file as it was when it was looked at: another file has another one, and so has the same file once its content
// or its attributes have changed. IDs are comparable.
type ID struct {
	Device, Inode uint64
	// Size is in bytes; Modified and Changed are the times of the last change of the content and of the attributes, in
	// Unix nanoseconds.
	Size, Modified, Changed int64
}

// Of is the ID of an open file.
func Of(file *os.File) (ID, error) {
	var info unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &info); err != nil {
		return ID{}, errors.Wrapf(err, "cannot look at %s", file.Name())
	}
	return idOf(&info), nil
}

// At is the ID of the file at path; of a link, that of the link itself.
func At(path string) (ID, error) {
	var info unix.Stat_t
	if err := unix.Lstat(path, &info); err != nil {
		return ID{}, errors.Wrapf(err, "cannot look at %s", path)
	}
	return idOf(&info), nil
}

func idOf(info *unix.Stat_t) ID {
	return ID{Device: info.Dev, Inode: info.Ino, Size: info.Size, Modified: info.Mtim.Nano(), Changed: info.Ctim.Nano()}
}

// Sum is the SHA-256 of a file's content, in hexadecimal digits.
func Sum(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", errors.WithStack(err)
	}
	defer file.Close()
	h := sha256.New()
	_, err = io.Copy(h, file)
	return hex.EncodeToString(h.Sum(nil)), errors.Wrapf(err, "cannot read %s", path)
}
