package logs

import (
	"context"

	"github.com/croft-edge/croft/pkg/node"
)

// Last are at most the last n lines of a container, oldest first. A line that
// was longer than 16 KiB, or unfinished for a second, comes in pieces.
// NotExist when nothing was ever kept of it.
func Last(dir, id string, n int) ([]node.LogLine, error) { return nil, errUnfinished() }

// Follow calls f with the last tail lines of a container and then with each
// that comes, until ctx is done (nil), f fails (its error), or the logs are
// dropped (nil). NotExist as Last.
func Follow(ctx context.Context, dir, id string, tail int, f func(node.LogLine) error) error {
	return errUnfinished()
}
