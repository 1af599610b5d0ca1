package command

import (
	"net/netip"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/modules/network/carrier"
	"github.com/croft-edge/croft/pkg/node"
)

// The flags of a carrier. They aren't settings: the node starts its carriers
// by itself and tells them all that they need.
const (
	flagRunDir      = "run-dir"
	flagLogLevel    = "log-level"
	flagMemoryLimit = "memory-limit"
	flagHardLimit   = "hard-memory-limit"
	flagSameGroup   = "same-cgroup"
	flagDNSServers  = "dns-servers"
)

// carrierCommand runs the processes that outlive the agent.
func carrierCommand(v node.Version) *cli.Command {
	return &cli.Command{
		Name: "carrier", Usage: "what the node starts by itself to outlive it: processes that hold workloads up",
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usage(errors.Errorf("cannot carry %q: there is no such carrier; it must be wg", c.Args().First()))
			}
			return usage(errors.New("cannot carry: say croftd carrier wg"))
		},
		Subcommands: []*cli.Command{{
			Name: "wg", Usage: "hold userspace WireGuard devices and the DNS of networks, for the node at --run-dir",
			Flags: []cli.Flag{
				&cli.StringFlag{Name: flagRunDir, Usage: "the node's run-dir; the carrier's `FOLDER` is wg below it", Value: "/run/croft", EnvVars: []string{config.EnvPrefix + "RUN_DIR"}},
				&cli.StringFlag{Name: flagLogLevel, Usage: "debug, info, warn or error; the log is {run-dir}/wg/log", Value: "info", EnvVars: []string{config.EnvPrefix + "LOG_LEVEL"}},
				&cli.Uint64Flag{Name: flagMemoryLimit, Usage: "memory in `BYTES` that the garbage collector aims at", Value: carrier.DefaultMemoryLimit},
				&cli.Uint64Flag{Name: flagHardLimit, Usage: "memory in `BYTES` above which the kernel ends the process; it is started again", Value: carrier.DefaultHardLimit},
				&cli.StringSliceFlag{Name: flagDNSServers, Usage: "`ADDRESS:PORT` of DNS servers that answer networks; none: those of /etc/resolv.conf"},
				&cli.BoolFlag{Name: flagSameGroup, Usage: "stay in the control groups of who starts it, without a hard limit"},
			},
			Action: func(c *cli.Context) error { return carryWG(c, v) },
		}},
	}
}

func carryWG(c *cli.Context, v node.Version) error {
	if c.Args().Present() {
		return usage(errors.Errorf("cannot use %q: croftd carrier wg takes no arguments", c.Args().First()))
	}
	level, err := zerolog.ParseLevel(c.String(flagLogLevel))
	if err != nil || c.String(flagLogLevel) == "" {
		return usage(errors.Errorf("cannot use %s = %q: it must be debug, info, warn or error", flagLogLevel, c.String(flagLogLevel)))
	}
	servers, err := addressPorts(c.StringSlice(flagDNSServers))
	if err != nil {
		return usage(err)
	}
	if err := needRoot("tun devices are made in network namespaces"); err != nil {
		return err
	}
	return carrier.Serve(c.Context, carrier.ServeConfig{
		RunDir: c.String(flagRunDir), Version: v.Version, Level: level,
		MemoryLimit: c.Uint64(flagMemoryLimit), HardLimit: c.Uint64(flagHardLimit), SameGroup: c.Bool(flagSameGroup),
		Zones: carrier.DNS(servers),
	})
}

// addressPorts reads a list of addresses with their ports.
func addressPorts(list []string) ([]netip.AddrPort, error) {
	var out []netip.AddrPort
	for _, text := range list {
		at, err := netip.ParseAddrPort(text)
		if err != nil {
			return nil, errors.Errorf("cannot use %s = %q: it must be ADDRESS:PORT", flagDNSServers, text)
		}
		out = append(out, at)
	}
	return out, nil
}
