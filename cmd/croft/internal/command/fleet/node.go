package fleet

import (
	"fmt"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/command/shell"
	"github.com/croft-edge/croft/cmd/croft/internal/lifetime"
	"github.com/croft-edge/croft/cmd/croft/internal/render"
	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/sign"
)

// nodes are the commands on nodes.
type nodes struct{ *shell.Shell }

// Nodes is `croft node`.
func Nodes(sh *shell.Shell) *cli.Command {
	s := nodes{sh}
	return &cli.Command{
		Name: "node", Category: "farms and nodes", Usage: "find nodes and show their free capacity",
		Subcommands: []*cli.Command{
			{
				Name: "list", Usage: "list the nodes", Action: s.list,
				Description: "Sizes are in GiB. The capacity is reported by the nodes themselves.\n\nExamples:\n  croft node list\n  croft node list --online --farm attic -o json",
				Flags: []cli.Flag{
					&cli.BoolFlag{Name: "online", Usage: "only nodes that are online"},
					&cli.StringFlag{Name: "farm", Usage: "only those of that farm, by number or name"},
				},
			},
			{
				Name: "show", Usage: "show a node", ArgsUsage: "NODE", Action: s.show,
				Description: "Examples:\n  croft node show 5f4NodeID…",
			},
		},
	}
}

func (s nodes) list(c *cli.Context) error {
	if _, err := shell.Arguments(c, 0, 0, "no argument"); err != nil {
		return err
	}
	client, err := s.Client(c, false)
	if err != nil {
		return err
	}
	filter := explorer.NodeFilter{Online: c.Bool("online")}
	if named := c.String("farm"); named != "" {
		farm, err := findFarm(c, client, named)
		if err != nil {
			return err
		}
		filter.Farm = farm.ID
	}
	nodes, err := client.AllNodes(c.Context, filter)
	if err != nil {
		return err
	}
	if nodes == nil {
		nodes = []explorer.Node{}
	}
	out := render.Rows{Head: []string{"NODE", "FARM", "ONLINE", "LAST SEEN", "FREE SSD", "FREE HDD", "FREE CPU", "FREE MEMORY"}}
	for _, n := range nodes {
		free := freeOf(n)
		out.Rows = append(out.Rows, []string{
			n.NodeID, strconv.FormatUint(n.FarmID, 10), render.YesNo(n.Online), lifetime.Ago(n.Updated, s.Env.Now()),
			fmt.Sprint(free.SRU), fmt.Sprint(free.HRU), fmt.Sprint(free.CRU), fmt.Sprint(free.MRU),
		})
	}
	return s.Answer(c, nodes, out)
}

func (s nodes) show(c *cli.Context) error {
	args, err := shell.Arguments(c, 1, 1, "one NODE")
	if err != nil {
		return err
	}
	if _, err := sign.ParseID(args[0]); err != nil {
		return shell.Usage(err)
	}
	client, err := s.Client(c, false)
	if err != nil {
		return err
	}
	n, err := client.Node(c.Context, args[0])
	if err != nil {
		return err
	}
	free, total := freeOf(n), n.TotalResources
	out := render.Rows{Head: []string{"NODE", n.NodeID}, Rows: [][]string{
		{"farm", fmt.Sprintf("%d (%s)", n.FarmID, map[bool]string{true: "approved", false: "not approved by its owner"}[n.Approved])},
		{"online", render.YesNo(n.Online)},
		{"last seen", lifetime.Ago(n.Updated, s.Env.Now())},
		{"uptime", lifetime.Text(time.Duration(n.Uptime) * time.Second)},
		{"version", n.OSVersion},
		{"address", n.Address},
		{"door", n.Door},
		{"SSD", fmt.Sprintf("%d of %d GiB free", free.SRU, total.SRU)},
		{"HDD", fmt.Sprintf("%d of %d GiB free", free.HRU, total.HRU)},
		{"CPU", fmt.Sprintf("%d of %d cores free", free.CRU, total.CRU)},
		{"memory", fmt.Sprintf("%d of %d GiB free", free.MRU, total.MRU)},
	}}
	return s.Answer(c, n, out)
}

// freeOf are a node's free resources: as it reports them, else total minus used.
func freeOf(n explorer.Node) explorer.Resources {
	if n.FreeResources != nil {
		return *n.FreeResources
	}
	left := func(total, used uint64) uint64 { return total - min(total, used) }
	t, u := n.TotalResources, n.UsedResources
	return explorer.Resources{CRU: left(t.CRU, u.CRU), MRU: left(t.MRU, u.MRU), HRU: left(t.HRU, u.HRU), SRU: left(t.SRU, u.SRU)}
}
