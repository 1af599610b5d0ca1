package projects

import (
	"context"
	"time"

	"github.com/pkg/errors"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/command/shell"
	"github.com/croft-edge/croft/cmd/croft/internal/deploy"
	"github.com/croft-edge/croft/cmd/croft/internal/lifetime"
)

// defaultTimeout is how long --wait waits.
const defaultTimeout = "10m"

func waitFlags(what string) []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "wait", Usage: "wait until " + what},
		&cli.StringFlag{Name: "timeout", Value: defaultTimeout, Usage: "how long --wait waits, as in 90s, 10m"},
	}
}

func yesFlag() cli.Flag {
	return &cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "don't ask before data is lost"}
}

// waitFor waits for targets as the flags ask.
func waitFor(c *cli.Context, d *deploy.Deployer, targets []deploy.Target) error {
	if !c.Bool("wait") {
		return nil
	}
	limit, err := timeout(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Context, limit)
	defer cancel()
	return d.Waiter.Wait(ctx, targets)
}

// timeout reads the flag; it is also called before anything is done.
func timeout(c *cli.Context) (time.Duration, error) {
	d, err := lifetime.Parse(c.String("timeout"))
	if err != nil {
		return 0, shell.Usage(errors.Wrap(err, "--timeout"))
	}
	return d, nil
}
