package rootfs

import (
	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// failed gives an error its kind; nil stays nil.
func failed(what, object string, err error) error {
	if err == nil {
		return nil
	}
	kind := node.KindOf(err)
	if kind == node.Internal {
		kind = kindOf(err)
	}
	return node.Errorf(kind, "cannot %s %s: %w", what, object, err)
}

func kindOf(err error) node.Kind {
	for kind, numbers := range map[node.Kind][]unix.Errno{
		node.NoSpace:   {unix.ENOSPC, unix.EDQUOT},
		node.Invalid:   {unix.EROFS, unix.ENAMETOOLONG, unix.ELOOP, unix.ENOTDIR, unix.EISDIR},
		node.NotExist:  {unix.ENOENT},
		node.Busy:      {unix.EBUSY},
		node.Transient: {unix.EIO, unix.EAGAIN, unix.ENOMEM, unix.EMFILE, unix.ENFILE, unix.EINTR, unix.ESTALE},
	} {
		for _, n := range numbers {
			if errors.Is(err, n) {
				return kind
			}
		}
	}
	return node.Internal
}
