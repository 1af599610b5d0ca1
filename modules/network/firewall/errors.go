package firewall

import (
	stderrors "errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// wrap gives a failure of the kernel its kind.
func wrap(err error, what string) error {
	kind := node.Internal
	switch {
	case stderrors.Is(err, fs.ErrNotExist):
		kind = node.NotExist
	case isAny(err, unix.EAGAIN, unix.EINTR, unix.EBUSY, unix.ENOBUFS, unix.ENOMEM, unix.EMFILE, unix.ENFILE):
		kind = node.Transient
	}
	return node.Errorf(kind, "%s: %w", what, err)
}

func isAny(err error, targets ...error) bool {
	for _, t := range targets {
		if stderrors.Is(err, t) {
			return true
		}
	}
	return false
}
