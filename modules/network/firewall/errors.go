package firewall

import (
	"io/fs"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// wrap gives a failure of the kernel its kind.
func wrap(err error, what string) error {
	kind := node.Internal
	switch {
	case errors.Is(err, fs.ErrNotExist):
		kind = node.NotExist
	case isAny(err, unix.EAGAIN, unix.EINTR, unix.EBUSY, unix.ENOBUFS, unix.ENOMEM, unix.EMFILE, unix.ENFILE):
		kind = node.Transient
	}
	return node.Errorf(kind, "%s: %w", what, err)
}

func isAny(err error, targets ...error) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}
