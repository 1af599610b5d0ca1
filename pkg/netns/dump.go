package netns

import (
	"github.com/pkg/errors"
	"github.com/vishvananda/netlink"
)

// tries is how often a list is read at most, until nothing changes meanwhile. A
// reading takes far less time than a change.
const tries = 16

// Whole repeats the reading of a list that the kernel reports as changed meanwhile:
// entries may be missing from it then, or be in it twice.
func Whole[T any](list func() ([]T, error)) ([]T, error) {
	for try := 1; ; try++ {
		all, err := list()
		if try < tries && errors.Is(err, netlink.ErrDumpInterrupted) {
			continue
		}
		return all, err
	}
}
