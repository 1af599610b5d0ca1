package networks

import (
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/command/shell"
	"github.com/croft-edge/croft/cmd/croft/internal/command/workspace"
	"github.com/croft-edge/croft/cmd/croft/internal/project"
)

// commands are run on the networks of a project file.
type commands struct{ *shell.Shell }

// Command is `croft network`.
func Command(sh *shell.Shell) *cli.Command {
	s := &commands{sh}
	return &cli.Command{
		Name: "network", Category: "projects", Usage: "plan private networks across nodes, in the project file",
		Description: "These commands change the networks of the project file; `croft apply` carries the change out. The file's comments and order are kept.",
		Subcommands: []*cli.Command{
			{
				Name: "create", Usage: "add a network without nodes", ArgsUsage: "NAME", Action: s.create,
				Description: "Chooses a private /16 that no other network of the file has. Makes the file when there is none.\n\n" +
					"Examples:\n  croft network create net1\n  croft network create net1 --ip-range 10.7.0.0/16 -f blog.yaml",
				Flags: []cli.Flag{workspace.FileFlag(), &cli.StringFlag{Name: "ip-range", Usage: "the private `RANGE` of all its nodes, a /16 (default: one that is free)"}},
			},
			s.addNodeCommand(), s.addAccessCommand(),
			{
				Name: "remove-node", Usage: "take a node out of a network", ArgsUsage: "NAME NODE", Action: s.removeNode, BashComplete: workspace.CompleteNetworks(nodesOf),
				Description: "NODE is its ID, or how the ID begins. `croft apply --prune` then ends the network there; the other nodes are updated. The file with its key stays.\n\n" +
					"Examples:\n  croft network remove-node net1 5f4NodeID…",
				Flags: []cli.Flag{workspace.FileFlag()},
			},
			{
				Name: "remove-access", Usage: "end an access to a network", ArgsUsage: "NAME ACCESS", Action: s.removeAccess, BashComplete: workspace.CompleteNetworks(accessesOf),
				Description: "Examples:\n  croft network remove-access net1 laptop",
				Flags:       []cli.Flag{workspace.FileFlag()},
			},
			{
				Name: "remove", Usage: "remove a network from the file", ArgsUsage: "NAME", Action: s.remove, BashComplete: workspace.CompleteNetworks(nil),
				Description: "`croft apply --prune` then ends it on its nodes.\n\nExamples:\n  croft network remove net1",
				Flags:       []cli.Flag{workspace.FileFlag()},
			},
			{
				Name: "list", Usage: "list the networks of the file", Action: s.list,
				Description: "Examples:\n  croft network list -o json",
				Flags:       []cli.Flag{workspace.FileFlag()},
			},
			{
				Name: "show", Usage: "show a network's nodes and accesses", ArgsUsage: "NAME", Action: s.show, BashComplete: workspace.CompleteNetworks(nil),
				Description: "Examples:\n  croft network show net1",
				Flags:       []cli.Flag{workspace.FileFlag()},
			},
			{
				Name: "graph", Usage: "print a network as a graph for Graphviz", ArgsUsage: "NAME", Action: s.graph, BashComplete: workspace.CompleteNetworks(nil),
				Description: "Boxes are nodes, ellipses are accesses, dashed nodes are hidden: others can't call them. An arrow shows which addresses are sent directly to which machine.\n\n" +
					"Examples:\n  croft network graph net1 | dot -Tsvg > net1.svg",
				Flags: []cli.Flag{workspace.FileFlag()},
			},
		},
	}
}

func (s *commands) addNodeCommand() *cli.Command {
	return &cli.Command{
		Name: "add-node", Usage: "add a node to a network", ArgsUsage: "NAME NODE", Action: s.addNode, BashComplete: workspace.CompleteNetworks(nil),
		Description: "Makes the node's WireGuard key, chooses its subnet and its port, and looks its public address up at the explorer. " +
			"A node without one is hidden: it calls the others, and reaches other hidden nodes through the network's first public node.\n\n" +
			"Examples:\n  croft network add-node net1 5f4NodeID…\n  croft network add-node net1 5f4NodeID… --endpoint vpn.example.org --port 3001\n  croft network add-node net1 5f4NodeID… --endpoint none",
		Flags: []cli.Flag{
			workspace.FileFlag(),
			&cli.StringFlag{Name: "subnet", Usage: "the node's `RANGE`, /17 to /30 (default: the next free /24)"},
			&cli.IntFlag{Name: "port", Usage: "the UDP `PORT` of its tunnels (default: one that is free)"},
			&cli.StringFlag{Name: "endpoint", Usage: "where others call it: `HOST`, HOST:PORT, or none (default: its public address)"},
			&cli.StringFlag{Name: "key", Usage: "the `FILE` with its private key; created when it is missing (default: keys/NAME-NODE.key beside the project file)", TakesFile: true},
		},
	}
}

func (s *commands) addAccessCommand() *cli.Command {
	return &cli.Command{
		Name: "add-access", Usage: "give a machine outside access to a network, and print its wg-quick file", ArgsUsage: "NAME ACCESS", Action: s.addAccess,
		BashComplete: workspace.CompleteNetworks(nil),
		Description: "ACCESS names the person or the machine. The private key is in the printed file and nowhere else.\n\n" +
			"Examples:\n  croft network add-access net1 laptop --out net1.conf\n  croft network add-access net1 phone | qrencode -t ansiutf8\n" +
			"  croft network add-access net1 office --public-key \"$(wg pubkey < office.key)\"",
		Flags: []cli.Flag{
			workspace.FileFlag(),
			&cli.StringFlag{Name: "node", Usage: "the public `NODE` to call (default: the network's first)"},
			&cli.StringFlag{Name: "subnet", Usage: "its `RANGE`, /17 to /30 (default: the next free /24)"},
			&cli.StringFlag{Name: "public-key", Usage: "an existing public `KEY`, instead of a new key pair"},
			&cli.StringFlag{Name: "out", Usage: "write the wg-quick file to `FILE` (mode 0600), which must not be there", TakesFile: true},
		},
	}
}

func nodesOf(n *project.Network) []string {
	var out []string
	for _, one := range n.Nodes {
		out = append(out, one.ID)
	}
	return out
}

func accessesOf(n *project.Network) []string {
	var out []string
	for _, one := range n.Access {
		out = append(out, one.Name)
	}
	return out
}
