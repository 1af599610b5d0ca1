package carrier

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/filelock"
	"github.com/croft-edge/croft/pkg/memory"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/supervise"
)

// ServeConfig is the configuration of a carrier process of any kind.
type ServeConfig struct {
	Kind Kind
	// RunDir is the node's folder of sockets: {run}.
	RunDir string
	// Version is croft's, for Info.
	Version string
	Level   zerolog.Level
	// HardLimit is the memory in bytes above which the kernel ends the process.
	HardLimit uint64
	// SameGroup keeps the process in the control groups that it was started in.
	SameGroup bool
	// WorthGiving is the amount of free memory, in bytes, above which it is given back.
	WorthGiving uint64
	// Before runs before HardLimit is in force; nil for nothing.
	Before func(log zerolog.Logger)
}

// giveBackEvery is how long a burst's free memory may be kept.
const giveBackEvery = 15 * time.Second

// Serve runs a carrier process: it returns when ctx is done or a client sends stop. open
// prepares the things that it carries, adds the operations to the server, and returns a
// function that ends them. Serve owns the process: it moves it to its own control groups
// and limits its memory. node.Busy when there is a carrier already.
func Serve(ctx context.Context, c ServeConfig, open func(ctx context.Context, s *Server, log zerolog.Logger) (end func(), err error)) error {
	signal.Ignore(syscall.SIGHUP) // it has the node's agent reload, and may be sent to all of its processes
	folder := c.Kind.Folder(c.RunDir)
	if err := folder.Make(); err != nil {
		return err
	}
	lock, err := filelock.Try(folder.Lock())
	if filelock.Held(err) != nil {
		return node.Errorf(node.Busy, "cannot carry: another %s runs for %s", c.Kind.Title, c.RunDir)
	}
	if err != nil {
		return err
	}
	defer func() { _ = lock.Release() }()
	lock.WritePID() // for the error of End, when this process doesn't answer
	file, err := OpenLog(folder.Log(), MaxLog)
	if err != nil {
		return err
	}
	defer file.Close()
	log := zerolog.New(file).Level(c.Level).With().Timestamp().Int("pid", os.Getpid()).Logger()
	if c.Before != nil {
		c.Before(log)
	}
	if !c.SameGroup {
		Confine(folder.Group(), Ceiling(c.HardLimit), log)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s := newServer(c, stop, log)
	s.Background("memory", func(ctx context.Context) { memory.GiveBack(ctx, giveBackEvery, c.WorthGiving) })
	end, err := open(ctx, s, log)
	if err == nil {
		err = s.run(ctx, folder)
		end()
	}
	log.Info().Err(err).Msg("carrier ends")
	return err
}

// run answers on the socket in folder until ctx is done.
func (s *Server) run(ctx context.Context, folder Folder) error {
	if err := os.WriteFile(folder.PID(), []byte(fmt.Sprintln(os.Getpid())), 0o600); err != nil {
		return errors.Wrap(err, "cannot write the carrier's PID file")
	}
	defer os.Remove(folder.PID())
	listener, err := listen(ctx, folder.Socket())
	if err != nil {
		return err
	}
	defer os.Remove(folder.Socket())
	socket := &control{listener: listener, maxRequest: s.kind.MaxRequest, answer: s.answer, log: s.log}
	group := supervise.New(s.log)
	for _, part := range s.parts {
		group.Start(part)
	}
	group.Start(supervise.Part{Name: "control", Run: socket.run})
	return group.Wait(ctx)
}
