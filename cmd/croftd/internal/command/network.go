package command

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/daemon"
	"github.com/croft-edge/croft/pkg/node"
)

// networkCommand runs the network module, and takes networks down.
func networkCommand(v node.Version) *cli.Command {
	return &cli.Command{
		Name: "network", Usage: "run the network module on --bus: users' private networks",
		Flags: settingFlags(), Action: serve(v, daemon.Network),
		Subcommands: []*cli.Command{{
			Name: "down", Usage: "remove the stopped node's networks and its wg carrier; the node makes them again when it starts",
			Flags: settingFlags(),
			Action: storageAction(func(ctx context.Context, _ *cli.Context, cfg config.Config) error {
				return daemon.TakeDownNetworks(ctx, cfg)
			}),
		}},
	}
}

// writeNetworks prints users' networks: who is in them, and whom they reach.
func writeNetworks(row func(cells ...string), networks []node.NetworkInfo, now time.Time) {
	if len(networks) == 0 {
		return
	}
	row("")
	row("NETWORK", "NAME", "SUBNET", "PORT", "MEMBERS", "PEERS HEARD", "TUNNEL", "DRIFT")
	for _, n := range networks {
		heard := 0
		for _, p := range n.Peers {
			if now.Sub(time.Unix(p.Handshake, 0)) < handshakeAge {
				heard++
			}
		}
		row(n.Label, n.Name, n.Subnet, fmt.Sprint(n.ListenPort), fmt.Sprint(len(n.Members)), fmt.Sprintf("%d of %d", heard, len(n.Peers)), n.Backend, cmp.Or(n.Drift, "-"))
	}
}

// handshakeAge is how old a tunnel's last handshake may be while it works:
// WireGuard makes one at least every three minutes of traffic.
const handshakeAge = 3 * time.Minute
