// Command explorer is the service where nodes register and users push reservations.
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
	err := app().RunContext(ctx, os.Args)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "explorer:", err)
		os.Exit(1)
	}
}

func app() *cli.App {
	return &cli.App{
		Name:            "explorer",
		Usage:           "the service where nodes register and users push reservations",
		Version:         version + " (" + commit + ")",
		HideHelpCommand: true,
		Flags:           append(serveFlags(), dbFlag()),
		Action:          serve,
		Commands:        []*cli.Command{dbCommand()},
		ExitErrHandler:  func(*cli.Context, error) {},
	}
}
