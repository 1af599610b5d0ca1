package command

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/deploy"
	"github.com/croft-edge/croft/cmd/croft/internal/lifetime"
	"github.com/croft-edge/croft/cmd/croft/internal/render"
	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/sign"
)

func (s *shell) nodeCommand() *cli.Command {
	return &cli.Command{
		Name: "node", Category: "farms and nodes", Usage: "find nodes and see what they have left",
		Subcommands: []*cli.Command{
			{
				Name: "list", Usage: "list the nodes", Action: s.nodeList,
				Description: "Sizes are in GiB. The capacity is what nodes say of themselves.\n\nExamples:\n  croft node list\n  croft node list --online --farm attic -o json",
				Flags: []cli.Flag{
					&cli.BoolFlag{Name: "online", Usage: "only those heard of lately"},
					&cli.StringFlag{Name: "farm", Usage: "only those of that farm, by number or name"},
				},
			},
			{
				Name: "show", Usage: "show a node", ArgsUsage: "NODE", Action: s.nodeShow,
				Description: "Examples:\n  croft node show 5f4NodeID…",
			},
		},
	}
}

func (s *shell) nodeList(c *cli.Context) error {
	if _, err := arguments(c, 0, 0, "no argument"); err != nil {
		return err
	}
	client, err := s.client(c, false)
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
			n.NodeID, strconv.FormatUint(n.FarmID, 10), yesNo(n.Online), ago(n.Updated, s.env.Now()),
			fmt.Sprint(free.SRU), fmt.Sprint(free.HRU), fmt.Sprint(free.CRU), fmt.Sprint(free.MRU),
		})
	}
	return s.answer(c, nodes, out)
}

func (s *shell) nodeShow(c *cli.Context) error {
	args, err := arguments(c, 1, 1, "one NODE")
	if err != nil {
		return err
	}
	if _, err := sign.ParseID(args[0]); err != nil {
		return &usageError{err}
	}
	client, err := s.client(c, false)
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
		{"online", yesNo(n.Online)},
		{"last seen", ago(n.Updated, s.env.Now())},
		{"uptime", lifetime.Text(time.Duration(n.Uptime) * time.Second)},
		{"version", n.OSVersion},
		{"address", n.Address},
		{"door", n.Door},
		{"SSD", fmt.Sprintf("%d of %d GiB free", free.SRU, total.SRU)},
		{"HDD", fmt.Sprintf("%d of %d GiB free", free.HRU, total.HRU)},
		{"CPU", fmt.Sprintf("%d of %d cores free", free.CRU, total.CRU)},
		{"memory", fmt.Sprintf("%d of %d GiB free", free.MRU, total.MRU)},
	}}
	return s.answer(c, n, out)
}

// freeOf is what a node has left: its own word, else what follows from what it has and uses.
func freeOf(n explorer.Node) explorer.Resources {
	if n.FreeResources != nil {
		return *n.FreeResources
	}
	left := func(total, used uint64) uint64 { return total - min(total, used) }
	t, u := n.TotalResources, n.UsedResources
	return explorer.Resources{CRU: left(t.CRU, u.CRU), MRU: left(t.MRU, u.MRU), HRU: left(t.HRU, u.HRU), SRU: left(t.SRU, u.SRU)}
}

func ago(updated int64, now time.Time) string {
	return strings.TrimSuffix(strings.TrimPrefix(deploy.LastSeen(updated, now), "last seen "), " seen")
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// clock is a moment for people, in their own time zone.
func clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04")
}
