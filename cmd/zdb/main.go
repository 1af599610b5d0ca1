// Command zdb is croft's 0-db: a server that keeps values on disk and speaks
// the protocol of Redis.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"
)

// version and commit are set by the linker.
var (
	version = "dev"
	commit  = "unknown"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	err := app().RunContext(ctx, os.Args)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "zdb:", err)
		os.Exit(1)
	}
}

func app() *cli.App {
	return &cli.App{
		Name:            "zdb",
		Usage:           "keep values on disk and serve them as 0-db does",
		Version:         version + " (" + commit + ")",
		HideHelpCommand: true,
		Flags:           flags(),
		Action:          serve,
		ExitErrHandler:  func(*cli.Context, error) {},
	}
}
