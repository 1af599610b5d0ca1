package netns

import (
	"github.com/pkg/errors"
	"github.com/vishvananda/netlink"
)

// tries is how often a list is read until nothing changes meanwhile. Each
// reading takes far less time than what changes it.
const tries = 16

// Whole reads a list again when the kernel says that something was changed
// while it was read: something may be missing in it then, or be there twice.
func Whole[T any](list func() ([]T, error)) ([]T, error) {
	for try := 1; ; try++ {
		all, err := list()
		if try < tries && errors.Is(err, netlink.ErrDumpInterrupted) {
			continue
		}
		return all, err
	}
}
