// Command croft is the user's and the operator's command line: keys, farms,
// nodes, projects and raw reservations.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/cmd/croft/internal/command"
	"github.com/croft-edge/croft/cmd/croft/internal/command/shell"
)

// Set by the linker.
var (
	version = "dev"
	commit  = "unknown"
)

func main() { os.Exit(run()) }

// run is the whole program; tests run it under another name.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return command.Run(ctx, shell.Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Getenv: os.LookupEnv, Now: time.Now, Terminal: terminal(os.Stdin) && terminal(os.Stderr),
		Version: version, Commit: commit,
	}, os.Args)
}

func terminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
