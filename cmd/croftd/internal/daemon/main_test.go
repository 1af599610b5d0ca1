package daemon

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croftd/internal/userapi/front"
	"github.com/croft-edge/croft/modules/container/image/unpack"
	"github.com/croft-edge/croft/pkg/logs"
)

// TestMain also runs as the log carrier, which a node starts from its own program.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "carrier" {
		os.Exit(carry())
	}
	if len(os.Args) == 2 && os.Args[1] == "unpack" {
		os.Exit(unpack.Serve())
	}
	if len(os.Args) == 2 && os.Args[1] == "door" {
		os.Exit(front.Serve())
	}
	os.Exit(m.Run())
}

func carry() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	app := cli.NewApp()
	app.Commands = []*cli.Command{{Name: "carrier", Subcommands: []*cli.Command{{
		Name: "log",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "run-dir"}, &cli.StringFlag{Name: "dir"}, &cli.StringFlag{Name: "log-level"},
			&cli.Int64Flag{Name: "size"}, &cli.IntFlag{Name: "files"},
		},
		Action: func(c *cli.Context) error {
			return logs.Serve(ctx, logs.ServeConfig{RunDir: c.String("run-dir"), Dir: c.String("dir"), Size: c.Int64("size"), Files: c.Int("files"), Version: "test"})
		},
	}}}}
	if err := app.Run(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
