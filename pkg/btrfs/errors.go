package btrfs

import (
	"io/fs"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// KindOf says what a failed system call on a pool means for the caller. An
// error that has a kind keeps it.
func KindOf(err error) node.Kind {
	var errno unix.Errno
	if k := node.KindOf(err); k != node.Internal || err == nil {
		return k
	}
	if !errors.As(err, &errno) {
		return node.Internal
	}
	switch errno {
	case unix.ENOSPC, unix.EDQUOT:
		return node.NoSpace
	case unix.EEXIST, unix.ENOTEMPTY:
		return node.Exist
	case unix.ENOENT:
		return node.NotExist
	case unix.EBUSY, unix.ETXTBSY:
		return node.Busy
	case unix.EIO, unix.EROFS, unix.EAGAIN, unix.ENOMEM, unix.EMFILE, unix.ENFILE, unix.ENODEV, unix.ENXIO, unix.ESTALE, unix.EUCLEAN:
		// The disk or the node is unwell; another try may find it better.
		return node.Transient
	case unix.EINVAL, unix.ENAMETOOLONG:
		return node.Invalid
	}
	return node.Internal
}

// Wrap says what could not be done and gives err its kind; nil stays nil.
func Wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	// A PathError repeats the path that the message has already.
	cause := err
	var path *fs.PathError
	if errors.As(err, &path) {
		cause = path.Err
	}
	return node.WithKind(KindOf(err), errors.Wrapf(cause, format, args...))
}
