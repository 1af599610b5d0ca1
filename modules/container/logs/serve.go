package logs

import (
	"context"

	"github.com/rs/zerolog"
)

// ServeConfig is what the carrier itself is told.
type ServeConfig struct {
	// RunDir, Dir, Size and Files are those of Config.
	RunDir string
	Dir    string
	Size   int64
	Files  int
	// Version is croft's, for who asks.
	Version string
	Level   zerolog.Level
	// HardLimit is the memory in bytes where the kernel ends the process; 0 for
	// the default.
	HardLimit uint64
	// SameGroup keeps the process in the control groups that it was started in.
	SameGroup bool
}

// Serve is the carrier: it returns when ctx is done or a client says stop.
// FIFOs stay, and the next carrier goes on with them. node.Busy when there is
// a carrier already.
func Serve(ctx context.Context, c ServeConfig) error { return errUnfinished() }
