package pid1

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/cmd/croft-init/internal/console"
	"github.com/croft-edge/croft/cmd/croft-init/internal/reap"
	"github.com/croft-edge/croft/cmd/croft-init/internal/web"
)

// Exit codes for a program that can't be started, as shells have them.
const (
	CodeNotStarted = 126
	CodeNotFound   = 127
)

// farewell is how long the end of the container may take to reach open terminals.
const farewell = time.Second

// Config configures the first process.
type Config struct {
	// Listen are the addresses of the web terminal; none when it is empty.
	Listen []netip.AddrPort
	// Names are the host names that requests may use.
	Names []string
	// Args is the container's program; empty for only the terminal.
	Args []string
	// Log receives its own messages.
	Log io.Writer
}

// Run runs the program and the terminal, and returns the exit code.
func Run(c Config) int {
	signals := make(chan os.Signal, 64)
	signal.Notify(signals, passedOn()...)
	defer signal.Stop(signals)

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	reaper := reap.New()
	go reaper.Run(ctx)

	// The terminal starts first, so that it gets its port whatever the program does.
	terminal := web.New(web.Config{
		Listen: c.Listen, Names: c.Names, Log: c.Log,
		Open: func(size console.Size) (web.Terminal, error) { return openShell(reaper, size) },
	})
	terminal.Listen(ctx)
	served := make(chan struct{})
	go func() { defer close(served); terminal.Serve(ctx) }()

	program, err := start(reaper, c.Args)
	if err != nil {
		fmt.Fprintf(c.Log, "croft-init: %v\n", err)
		return StartCode(err)
	}
	code := wait(program, signals)
	stop()
	select {
	case <-served:
	case <-time.After(farewell):
	}
	return code
}

// openShell starts the shell of a terminal.
func openShell(r *reap.Reaper, size console.Size) (web.Terminal, error) {
	path := console.FindShell(os.Getenv("SHELL"))
	if path == "" {
		return nil, web.ErrNoShell
	}
	return console.Open(r, path, size)
}

// start starts the container's program with this process's standard files. It returns nil when there is
// no program.
func start(r *reap.Reaper, args []string) (*reap.Child, error) {
	if len(args) == 0 {
		return nil, nil
	}
	path, err := exec.LookPath(args[0])
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return nil, errors.Wrapf(err, "cannot start %q", args[0])
	}
	return r.Start(reap.Program{Path: path, Args: args, Env: os.Environ(), Files: []uintptr{0, 1, 2}})
}

// StartCode is the exit code for a program that couldn't be started.
func StartCode(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return CodeNotFound
	}
	return CodeNotStarted
}

// wait forwards signals until the program has ended. Without a program, it returns at a signal that
// means termination.
func wait(program *reap.Child, signals <-chan os.Signal) int {
	var done <-chan struct{}
	if program != nil {
		done = program.Done()
	}
	for {
		select {
		case <-done:
			return program.Code()
		case s := <-signals:
			number, ok := s.(syscall.Signal)
			if program == nil && ok && means(number) {
				return 0
			}
			if program != nil && ok {
				_ = program.Signal(number) // a process that can't be signalled ends by itself, or is killed
			}
		}
	}
}
