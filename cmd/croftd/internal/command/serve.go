package command

import (
	"cmp"
	"context"
	"io"
	"os"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/daemon"
	"github.com/croft-edge/croft/modules/debug"
	"github.com/croft-edge/croft/pkg/node"
)

// serveCommands are the ones that run until they are told to stop.
func serveCommands(v node.Version) []*cli.Command {
	return []*cli.Command{
		{
			Name: "run", Usage: "run the whole node in one process, on a bus of its own",
			Flags: settingFlags(), Action: serve(v, daemon.Whole),
		},
		{
			Name: "identity", Usage: "run the identity module on --bus: the node's key",
			Flags: settingFlags(), Action: serve(v, daemon.Identity),
		},
		{
			Name: "monitor", Usage: "run the monitor module on --bus: what the machine is",
			Flags: settingFlags(), Action: serve(v, daemon.Monitor),
		},
		{
			Name: "debug", Usage: "run the debug module on --bus: streams of the node's log lines",
			Flags: settingFlags(), Action: serve(v, daemon.Debug),
		},
		{
			Name: "zdb", Aliases: []string{node.ZDBModule}, Usage: "run the zdb module on --bus: users' 0-db namespaces and the ports of zdb containers",
			Flags: settingFlags(), Action: serve(v, daemon.ZDB),
		},
		{
			Name: "provision", Usage: "run the engine on --bus: reservations, health, control",
			Flags: settingFlags(), Action: serve(v, daemon.Provision),
		},
	}
}

// serve runs what of the node is named until the process is told to stop.
func serve(v node.Version, what daemon.Shape) cli.ActionFunc {
	return func(c *cli.Context) error {
		if c.Args().Present() {
			return usage(errors.Errorf("cannot use %q: croftd %s takes no arguments", c.Args().First(), c.Command.Name))
		}
		loaded, err := load(c)
		if err != nil {
			return err
		}
		if err := checkBus(what, loaded.Config); err != nil {
			return usage(err)
		}
		if err := needRoot("a node makes loop devices, btrfs pools and mounts, and keeps its key where only root can read it"); err != nil {
			return err
		}
		tap := debug.NewTap(output(loaded.Config))
		log := logger(loaded.Config, tap).With().Str("part", string(what)).Logger()
		if loaded.File != "" {
			log.Info().Str("file", loaded.File).Msg("settings are read from a file")
		}
		for _, name := range loaded.Ignored {
			log.Warn().Str("name", name).Msg("ignored in the environment: it is no setting")
		}
		return daemon.Run(c.Context, daemon.Config{Config: loaded.Config, Shape: what, Version: v, Log: log, Tap: tap})
	}
}

func checkBus(what daemon.Shape, c config.Config) error {
	if what == daemon.Whole && c.Bus != "" {
		return errors.New("cannot use bus with croftd run: the whole node is one process with a bus of its own; run croftd identity, storage, network, container, zdb, monitor, debug and provision instead")
	}
	if what != daemon.Whole && c.Bus == "" {
		return errors.Errorf("cannot run %s without bus: it must be the URL of the redis server that the other modules use", what)
	}
	return nil
}

// output is where log lines go: standard error, in the form that is asked for.
func output(c config.Config) io.Writer {
	if c.LogFormat == "text" {
		return zerolog.ConsoleWriter{Out: os.Stderr, TimeFormat: time.RFC3339, NoColor: true}
	}
	return os.Stderr
}

func logger(c config.Config, out io.Writer) zerolog.Logger {
	level, err := zerolog.ParseLevel(c.LogLevel)
	if err != nil {
		level = zerolog.InfoLevel
	}
	return zerolog.New(out).Level(level).With().Timestamp().Logger()
}

// storageCommand runs the storage module, and takes pools down.
func storageCommand(v node.Version) *cli.Command {
	return &cli.Command{
		Name: "storage", Usage: "run the storage module on --bus: pools and volumes",
		Flags: settingFlags(), Action: serve(v, daemon.Storage),
		Subcommands: []*cli.Command{
			{
				Name: "detach", Usage: "unmount the node's pools and free their loop devices; the data stays; the node must be stopped",
				Flags: settingFlags(),
				Action: storageAction(func(ctx context.Context, c *cli.Context, cfg config.Config) error {
					return daemon.DetachPools(ctx, cfg)
				}),
			},
			{
				Name: "destroy", Usage: "remove a pool with all that is on it; the node must be stopped",
				Flags: append(settingFlags(),
					&cli.StringFlag{Name: "pool", Usage: "`NAME` of the pool"},
					&cli.BoolFlag{Name: "all", Usage: "all pools of the node"},
					&cli.BoolFlag{Name: "yes", Usage: "yes, remove the data"},
					&cli.BoolFlag{Name: "force", Usage: "also when volumes or virtual disks are on it"}),
				Action: storageAction(destroy),
			},
		},
	}
}

func storageAction(do func(ctx context.Context, c *cli.Context, cfg config.Config) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		loaded, err := load(c)
		if err != nil {
			return err
		}
		if err := needRoot("unmounting pools, freeing loop devices, removing networks and ending containers"); err != nil {
			return err
		}
		return do(c.Context, c, loaded.Config)
	}
}

func destroy(ctx context.Context, c *cli.Context, cfg config.Config) error {
	pool := c.String("pool")
	if (pool == "") == !c.Bool("all") {
		return usage(errors.New("cannot destroy: say either --pool NAME, as croftd status shows it, or --all"))
	}
	if !c.Bool("yes") {
		return node.Errorf(node.Refused, "cannot destroy %s: say --yes to remove all data on it", cmp.Or(pool, "all pools"))
	}
	return daemon.DestroyPools(ctx, cfg, pool, c.Bool("force"))
}
