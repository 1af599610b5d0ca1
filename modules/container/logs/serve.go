package logs

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/carrier"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/supervise"
)

// DefaultHardLimit is the memory in bytes above which the kernel ends the
// carrier; what waits in spools on a tmpfs counts.
const DefaultHardLimit = 256 << 20

const (
	// memoryLimit is what the garbage collector aims at, in bytes.
	memoryLimit = 24 << 20
	// giveBackEvery is how long a burst's memory may stay.
	giveBackEvery = 15 * time.Second
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

func folderOf(runDir string) carrier.Folder { return carrier.FolderOf(runDir, "log") }

// Serve is the carrier: it returns when ctx is done or a client says stop.
// FIFOs stay, and the next carrier goes on with them. It owns the process: it
// moves it to control groups of its own and limits its memory. node.Busy when
// there is a carrier already.
func Serve(ctx context.Context, c ServeConfig) error {
	c, err := c.normal()
	if err != nil {
		return err
	}
	dir := folderOf(c.RunDir)
	if err := dir.Make(); err != nil {
		return err
	}
	lock, err := carrier.TryLock(dir.Lock())
	if err != nil {
		return err
	}
	if lock == nil {
		return node.Errorf(node.Busy, "cannot carry: another log carrier runs for %s", c.RunDir)
	}
	defer lock.Close()
	file, err := carrier.OpenLog(dir.Log(), carrier.MaxLog)
	if err != nil {
		return err
	}
	defer file.Close()
	log := zerolog.New(file).Level(c.Level).With().Timestamp().Int("pid", os.Getpid()).Logger()
	err = serve(ctx, c, dir, log)
	log.Info().Err(err).Msg("carrier ends")
	return err
}

func serve(ctx context.Context, c ServeConfig, dir carrier.Folder, log zerolog.Logger) error {
	// Before the limit holds: an earlier carrier may have been killed for it.
	makeRoom(dir.Path("c"), int64(c.HardLimit), log)
	if !c.SameGroup {
		carrier.Confine(dir.Group(), carrier.Ceiling(c.HardLimit), log)
	}
	debug.SetMemoryLimit(memoryLimit)
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return errors.Wrap(err, "cannot make the folder for logs")
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	carried := newCarried(dir.Path("c"), c.Dir, limits{size: c.Size, files: c.Files, slow: defaultSlow, pool: newPool(), fair: newFair()}, log)
	defer carried.close()
	carried.found(ctx)
	if err := os.WriteFile(dir.PID(), []byte(fmt.Sprintln(os.Getpid())), 0o600); err != nil {
		return errors.Wrap(err, "cannot write the carrier's PID file")
	}
	defer os.Remove(dir.PID())
	listener, err := carrier.Listen(ctx, dir.Socket())
	if err != nil {
		return err
	}
	defer os.Remove(dir.Socket())
	s := &server{config: c, started: time.Now(), carried: carried, stop: stop, log: log}
	log.Info().Str("version", c.Version).Int("containers", len(carried.list())).Msg("carrier begins")
	control := &carrier.Control{Listener: listener, MaxRequest: maxRequest, Answer: s.answer, Log: log}
	group := supervise.New(log)
	group.Start(supervise.Part{Name: "memory", Run: func(ctx context.Context) error { carrier.GiveBack(ctx, giveBackEvery, memoryLimit/8); return nil }})
	group.Start(supervise.Part{Name: "control", Run: control.Run})
	return group.Wait(ctx)
}
