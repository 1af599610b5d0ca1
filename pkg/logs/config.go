package logs

import (
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/node"
)

// The defaults of how much of a container's output is kept.
const (
	DefaultSize  = 10 << 20
	DefaultFiles = 2
)

// The least that can be asked for.
const (
	MinSize  = 128 << 10
	MinFiles = 2
)

// Config configures Ensure.
type Config struct {
	// RunDir is the node's folder of sockets: the carrier's is log below it,
	// with the containers' FIFOs. It should be on a tmpfs.
	RunDir string
	// Dir is the folder of the containers' log files.
	Dir string
	// Command starts a carrier for RunDir and Dir with this Size and Files: the
	// path of a program and its arguments, such as "/proc/self/exe carrier log …".
	Command []string
	// Size is how large a file gets in bytes, Files how many there are a
	// container; 0 for the defaults.
	Size  int64
	Files int
	// Within is how long a new carrier may take until it answers; 0 for 10 s.
	Within time.Duration
	Log    zerolog.Logger
}

func (c Config) normal() (Config, error) {
	var err error
	c.Size, c.Files, err = bounds(c.Size, c.Files)
	return c, err
}

// bounds fills in the defaults and refuses values that can't work.
func bounds(size int64, files int) (int64, int, error) {
	if size == 0 {
		size = DefaultSize
	}
	if files == 0 {
		files = DefaultFiles
	}
	if size < MinSize {
		return 0, 0, node.Errorf(node.Invalid, "cannot use a log size of %d bytes: it must be at least %d", size, MinSize)
	}
	if files < MinFiles || files > 1000 {
		return 0, 0, node.Errorf(node.Invalid, "cannot use %d log files: it must be %d to 1000", files, MinFiles)
	}
	return size, files, nil
}

// FIFOs are the paths that a container's output goes to.
type FIFOs struct {
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
}
