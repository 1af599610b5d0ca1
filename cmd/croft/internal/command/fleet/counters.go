package fleet

import (
	"context"
	"fmt"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/command/shell"
	"github.com/croft-edge/croft/cmd/croft/internal/render"
	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/node/stubs"
	"github.com/croft-edge/croft/pkg/workload"
)

// defaultBus is where croftd opens its bus.
const defaultBus = "unix:///run/croft/bus.sock"

// countersWait is how long the first value may take: the node sends one at
// least every 2 s.
const countersWait = 10 * time.Second

// counters is the command on the counters of a node.
type counters struct{ *shell.Shell }

// Counters is `croft counters`.
func Counters(sh *shell.Shell) *cli.Command {
	s := counters{sh}
	return &cli.Command{
		Name: "counters", Category: "on a node", Usage: "count the workloads that a node has deployed", Action: s.read,
		Description: "Reads the node's own stream over its bus, so it runs on the node's machine.\n\n" +
			"Examples:\n  croft counters\n  croft counters --watch -o json\n  croft counters --bus redis://127.0.0.1:6379",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "bus", Value: defaultBus, Usage: "the bus's `URL`: unix://PATH of croftd's socket, or redis://…"},
			&cli.BoolFlag{Name: "watch", Usage: "print a line a value, until interrupted"},
		},
	}
}

// count is the answer's form.
type count struct {
	Container int64 `json:"container"`
	Volume    int64 `json:"volume"`
	Network   int64 `json:"network"`
	ZDB       int64 `json:"zdb"`
	VM        int64 `json:"vm"`
	Debug     int64 `json:"debug"`
}

func (s counters) read(c *cli.Context) error {
	if _, err := shell.Arguments(c, 0, 0, "no argument"); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(c.Context)
	defer cancel()
	client, err := bus.Dial(ctx, c.String("bus"), bus.Options{Log: zerolog.Nop()})
	if err != nil {
		return errors.Wrapf(err, "cannot read counters from %s", c.String("bus"))
	}
	defer client.Close()
	values, err := stubs.NewProvisionStub(client).Counters(ctx)
	if err != nil {
		return errors.Wrap(err, "cannot read counters")
	}
	return s.show(c, values)
}

func (s counters) show(c *cli.Context, values <-chan workload.ProvisionCounters) error {
	first := time.NewTimer(countersWait)
	defer first.Stop()
	for seen := false; ; seen = true {
		select {
		case <-c.Context.Done():
			if seen {
				return nil
			}
			return c.Context.Err()
		case <-first.C:
			if !seen {
				return errors.Errorf("cannot read counters: the node sent none within %s", countersWait)
			}
		case v, ok := <-values:
			if !ok {
				return errors.New("cannot read counters: the stream has ended")
			}
			if err := s.showCount(c, count(v), seen); err != nil || !c.Bool("watch") {
				return err
			}
		}
	}
}

// showCount shows one value; the table's head is shown once.
func (s counters) showCount(c *cli.Context, v count, again bool) error {
	f, err := s.Output(c)
	if err != nil {
		return err
	}
	switch {
	case f == render.Table:
		return render.Columns(s.Env.Stdout, countHead(again), []int64{v.Container, v.Volume, v.Network, v.ZDB, v.VM, v.Debug})
	case f == render.JSON && c.Bool("watch"):
		return render.JSONLine(s.Env.Stdout, v)
	case f == render.YAML && again:
		if _, err := fmt.Fprintln(s.Env.Stdout, "---"); err != nil {
			return err
		}
	}
	return render.Write(s.Env.Stdout, f, v, render.Rows{})
}

func countHead(again bool) []string {
	if again {
		return nil
	}
	return []string{"CONTAINER", "VOLUME", "NETWORK", "ZDB", "VM", "DEBUG"}
}
