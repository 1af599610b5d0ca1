package command

import (
	"path/filepath"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/modules/network/carrier"
	"github.com/croft-edge/croft/modules/vm/discard"
	"github.com/croft-edge/croft/modules/vm/launch"
	"github.com/croft-edge/croft/pkg/logs"
	"github.com/croft-edge/croft/pkg/node"
)

// The flags of a carrier. They aren't settings: the node starts its carriers itself and passes all
// values.
const (
	flagRunDir    = "run-dir"
	flagLogLevel  = "log-level"
	flagGarbage   = "garbage"
	flagHardLimit = "hard-memory-limit"
	flagSameGroup = "same-cgroup"
	flagDir       = "dir"
	flagSize      = "size"
	flagFiles     = "files"
)

// carrierCommand runs the processes that outlive the agent.
func carrierCommand(v node.Version) *cli.Command {
	return &cli.Command{
		Name: "carrier", Usage: "run a carrier: a process that the node starts, that keeps workloads up and outlives the node",
		Action: func(*cli.Context) error {
			return usage(errors.New("cannot run a carrier: name one, as croftd carrier wg or croftd carrier log"))
		},
		Subcommands: []*cli.Command{wgCommand(v), logCommand(v), vmCommand(), discardCommand()},
	}
}

func wgCommand(v node.Version) *cli.Command {
	return &cli.Command{
		Name: "wg", Usage: "hold userspace WireGuard devices and the DNS of networks, for the node at --run-dir",
		Flags: append(carrierFlags("wg"),
			&cli.Uint64Flag{Name: flagGarbage, Usage: "garbage in `BYTES` that may gather before it is collected", Value: carrier.DefaultGarbage},
			&cli.Uint64Flag{Name: flagHardLimit, Usage: hardLimitHelp, Value: carrier.DefaultHardLimit}),
		Action: func(c *cli.Context) error { return carryWG(c, v) },
	}
}

func logCommand(v node.Version) *cli.Command {
	return &cli.Command{
		Name: "log", Usage: "write the output of containers into files, for the node at --run-dir",
		Flags: append(carrierFlags("log"),
			&cli.StringFlag{Name: flagDir, Usage: "`FOLDER` of the containers' log files"},
			&cli.Int64Flag{Name: flagSize, Usage: "size in `BYTES` of a file before the next one is begun", Value: logs.DefaultSize},
			&cli.IntFlag{Name: flagFiles, Usage: "`NUMBER` of files that are kept of a container", Value: logs.DefaultFiles},
			&cli.Uint64Flag{Name: flagHardLimit, Usage: hardLimitHelp, Value: logs.DefaultHardLimit}),
		Action: func(c *cli.Context) error { return carryLogs(c, v) },
	}
}

// vmCommand becomes a virtual machine's QEMU. It has its order and its files as open descriptors, which only the node gives.
func vmCommand() *cli.Command {
	return &cli.Command{
		Name: "vm", Usage: "become a virtual machine, as the node that starts it says", Hidden: true,
		Action: func(*cli.Context) error { return launch.Become() },
	}
}

// discardCommand passes a virtual machine's discards on to its disks, which it gets from the process that becomes the machine.
func discardCommand() *cli.Command {
	return &cli.Command{
		Name: "discard", Usage: "pass the discards of a virtual machine on, as the process that starts it says", Hidden: true,
		Action: func(*cli.Context) error { return discard.Serve() },
	}
}

const hardLimitHelp = "memory in `BYTES` above which the kernel ends the process; it is started again"

// carrierFlags are the flags common to all carriers; name is also the carrier's folder.
func carrierFlags(name string) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: flagRunDir, Usage: "the node's run-dir; the carrier's `FOLDER` is " + name + " below it", Value: "/run/croft", EnvVars: []string{config.EnvPrefix + "RUN_DIR"}},
		&cli.StringFlag{Name: flagLogLevel, Usage: "debug, info, warn or error; the log is {run-dir}/" + name + "/log", Value: "info", EnvVars: []string{config.EnvPrefix + "LOG_LEVEL"}},
		&cli.BoolFlag{Name: flagSameGroup, Usage: "stay in the control groups of the starting process, without a hard limit"},
	}
}

// carries checks the flags common to all carriers.
func carries(c *cli.Context) (zerolog.Level, error) {
	level, err := zerolog.ParseLevel(c.String(flagLogLevel))
	if err != nil || c.String(flagLogLevel) == "" {
		return 0, usage(errors.Errorf("cannot use %s = %q: it must be debug, info, warn or error", flagLogLevel, c.String(flagLogLevel)))
	}
	return level, nil
}

func carryWG(c *cli.Context, v node.Version) error {
	level, err := carries(c)
	if err != nil {
		return err
	}
	if err := needRoot("tun devices are made in network namespaces"); err != nil {
		return err
	}
	return carrier.Serve(c.Context, carrier.ServeConfig{
		RunDir: c.String(flagRunDir), Version: v.Version, Level: level,
		Garbage: c.Uint64(flagGarbage), HardLimit: c.Uint64(flagHardLimit), SameGroup: c.Bool(flagSameGroup),
		Zones: carrier.DNS(nil),
	})
}

func carryLogs(c *cli.Context, v node.Version) error {
	level, err := carries(c)
	if err != nil {
		return err
	}
	if !filepath.IsAbs(c.String(flagDir)) {
		return usage(errors.Errorf("cannot use %s = %q: it must be an absolute path", flagDir, c.String(flagDir)))
	}
	if err := needRoot("containers' output is read where only root can"); err != nil {
		return err
	}
	return logs.Serve(c.Context, logs.ServeConfig{
		RunDir: c.String(flagRunDir), Dir: c.String(flagDir), Size: c.Int64(flagSize), Files: c.Int(flagFiles),
		Version: v.Version, Level: level, HardLimit: c.Uint64(flagHardLimit), SameGroup: c.Bool(flagSameGroup),
	})
}
