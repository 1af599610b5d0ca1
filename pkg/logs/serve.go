package logs

import (
	"context"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/carrier"
	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
)

// DefaultHardLimit is the memory in bytes above which the kernel ends the
// carrier; data that waits in spools on a tmpfs counts.
const DefaultHardLimit = 256 << 20

// memoryLimit is the size that the garbage collector aims at, in bytes.
const memoryLimit = 24 << 20

// ServeConfig is the configuration of a carrier process.
type ServeConfig struct {
	// RunDir, Dir, Size and Files are those of Config.
	RunDir string
	Dir    string
	Size   int64
	Files  int
	// Version is croft's, for Info.
	Version string
	Level   zerolog.Level
	// HardLimit is the memory in bytes where the kernel ends the process; 0 for
	// the default.
	HardLimit uint64
	// SameGroup keeps the process in the control groups that it was started in.
	SameGroup bool
}

func (c ServeConfig) normal() (ServeConfig, error) {
	if c.HardLimit == 0 {
		c.HardLimit = DefaultHardLimit
	}
	if !filepath.IsAbs(c.RunDir) || !filepath.IsAbs(c.Dir) {
		return c, node.Errorf(node.Invalid, "cannot carry logs from %q to %q: both must be absolute paths", c.RunDir, c.Dir)
	}
	c.Dir = filepath.Clean(c.Dir)
	var err error
	c.Size, c.Files, err = bounds(c.Size, c.Files)
	return c, err
}

// fifosOf is the folder of the containers' FIFOs and spools.
func fifosOf(runDir string) string { return kind().Folder(runDir).Path("c") }

// Serve is the carrier: it returns when ctx is done or a client says stop.
// FIFOs stay, and the next carrier goes on with them. It owns the process: it
// moves it to control groups of its own and limits its memory. node.Busy when
// there is a carrier already.
func Serve(ctx context.Context, c ServeConfig) error {
	c, err := c.normal()
	if err != nil {
		return err
	}
	return carrier.Serve(ctx, carrier.ServeConfig{
		Kind: kind(), RunDir: c.RunDir, Version: c.Version, Level: c.Level, HardLimit: c.HardLimit, SameGroup: c.SameGroup, WorthGiving: memoryLimit / 8,
		// The kernel may have killed an earlier carrier at its limit.
		Before: func(log zerolog.Logger) { makeRoom(fifosOf(c.RunDir), int64(c.HardLimit), log) },
	}, c.open)
}

// open begins to read the containers of an earlier carrier; s serves the rest.
func (c ServeConfig) open(ctx context.Context, s *carrier.Server, log zerolog.Logger) (end func(), err error) {
	debug.SetMemoryLimit(memoryLimit)
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, errors.Wrap(err, "cannot make the folder for logs")
	}
	all := newContainers(fifosOf(c.RunDir), c.Dir, limits{size: c.Size, files: c.Files, slow: defaultSlow, pool: newPool(), scheduler: newScheduler()}, log)
	all.found(ctx)
	handle(s, all)
	s.Describe(func(i carrier.Info) any {
		return Info{Info: i, Containers: len(all.list()), Dir: c.Dir, Size: c.Size, Files: c.Files, Limits: limit.Times()}
	})
	log.Info().Str("version", c.Version).Int("containers", len(all.list())).Msg("carrier begins")
	return all.close, nil
}

func handle(s *carrier.Server, all *containers) {
	carrier.Handle(s, opOpen, func(ctx context.Context, r openRequest) (openAnswer, error) {
		fifos, err := all.open(ctx, r.ID, r.User)
		return openAnswer{&fifos}, err
	})
	carrier.Handle(s, opDrop, func(ctx context.Context, r dropRequest) (carrier.Nothing, error) {
		return carrier.Nothing{}, all.drop(ctx, r.ID, r.KeepFiles)
	})
	carrier.Handle(s, opList, func(context.Context, carrier.Nothing) (listAnswer, error) {
		return listAnswer{all.list()}, nil
	})
}
