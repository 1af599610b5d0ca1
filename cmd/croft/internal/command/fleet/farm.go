package fleet

import (
	"strconv"

	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/command/shell"
	"github.com/croft-edge/croft/cmd/croft/internal/render"
	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/sign"
)

// farms are the commands on farms.
type farms struct{ *shell.Shell }

// Farms is `croft farm`.
func Farms(sh *shell.Shell) *cli.Command {
	s := farms{sh}
	return &cli.Command{
		Name: "farm", Category: "farms and nodes", Usage: "make farms, and let nodes join yours",
		Subcommands: []*cli.Command{
			{
				Name: "create", Usage: "make a farm that you own", ArgsUsage: "NAME", Action: s.create,
				Description: "Examples:\n  croft farm create attic",
			},
			{
				Name: "list", Usage: "list the farms", Action: s.list,
				Description: "Examples:\n  croft farm list\n  croft farm list --mine",
				Flags:       []cli.Flag{&cli.BoolFlag{Name: "mine", Usage: "only those that you own"}},
			},
			{
				Name: "show", Usage: "show a farm and its nodes", ArgsUsage: "FARM", Action: s.show,
				Description: "FARM is its number or its name.\n\nExamples:\n  croft farm show 3\n  croft farm show attic",
			},
			{
				Name: "approve", Usage: "let a node join your farm", ArgsUsage: "NODE", Action: s.approve,
				Description: "Signs that the node may belong to the farm, and brings that to the explorer. The node must have registered.\n\n" +
					"Examples:\n  croft farm approve 5f4NodeID… --farm attic",
				Flags: []cli.Flag{&cli.StringFlag{Name: "farm", Usage: "the farm's number or name (default: the one that the node asks to join)"}},
			},
		},
	}
}

func (s farms) create(c *cli.Context) error {
	args, err := shell.Arguments(c, 1, 1, "one NAME")
	if err != nil {
		return err
	}
	client, err := s.Client(c, true)
	if err != nil {
		return err
	}
	farm, err := client.CreateFarm(c.Context, args[0])
	if err != nil {
		return err
	}
	return s.Answer(c, farm, farmRows([]explorer.Farm{farm}))
}

func (s farms) list(c *cli.Context) error {
	if _, err := shell.Arguments(c, 0, 0, "no argument"); err != nil {
		return err
	}
	client, err := s.Client(c, false)
	if err != nil {
		return err
	}
	farms, err := client.AllFarms(c.Context)
	if err != nil {
		return err
	}
	if c.Bool("mine") {
		key, err := s.Key(c)
		if err != nil {
			return err
		}
		var mine []explorer.Farm
		for _, f := range farms {
			if f.Owner == key.ID() {
				mine = append(mine, f)
			}
		}
		farms = mine
	}
	if farms == nil {
		farms = []explorer.Farm{}
	}
	return s.Answer(c, farms, farmRows(farms))
}

func (s farms) show(c *cli.Context) error {
	args, err := shell.Arguments(c, 1, 1, "one FARM")
	if err != nil {
		return err
	}
	client, err := s.Client(c, false)
	if err != nil {
		return err
	}
	farm, err := findFarm(c, client, args[0])
	if err != nil {
		return err
	}
	nodes, err := client.AllNodes(c.Context, explorer.NodeFilter{Farm: farm.ID})
	if err != nil {
		return err
	}
	if nodes == nil {
		nodes = []explorer.Node{}
	}
	rows := farmRows([]explorer.Farm{farm})
	rows.Head = append(rows.Head, "NODES")
	rows.Rows[0] = append(rows.Rows[0], strconv.Itoa(len(nodes)))
	return s.Answer(c, struct {
		explorer.Farm
		Nodes []explorer.Node `json:"nodes"`
	}{farm, nodes}, rows)
}

func (s farms) approve(c *cli.Context) error {
	args, err := shell.Arguments(c, 1, 1, "one NODE")
	if err != nil {
		return err
	}
	if _, err := sign.ParseID(args[0]); err != nil {
		return shell.Usage(err)
	}
	key, err := s.Key(c)
	if err != nil {
		return err
	}
	client, err := s.Client(c, false)
	if err != nil {
		return err
	}
	farm, err := farmOf(c, client, args[0])
	if err != nil {
		return err
	}
	if farm.Owner != key.ID() {
		return shell.Usagef("farm %q is owned by %s, and the key is of %s: only its owner lets nodes join", farm.Name, farm.Owner, key.ID())
	}
	grant := explorer.SignGrant(key, farm.ID, args[0], s.Env.Now())
	if err := client.Approve(c.Context, farm.ID, args[0], grant); err != nil {
		return err
	}
	return s.Answer(c, map[string]any{"node": args[0], "farm": farm.ID, "grant": grant},
		render.Rows{Head: []string{"NODE", "FARM"}, Rows: [][]string{{args[0], farm.Name}}})
}

// farmOf is the farm that the flag names, else the one that the node asks for.
func farmOf(c *cli.Context, client *explorer.Client, nodeID string) (explorer.Farm, error) {
	if named := c.String("farm"); named != "" {
		return findFarm(c, client, named)
	}
	n, err := client.Node(c.Context, nodeID)
	if err != nil {
		return explorer.Farm{}, err
	}
	if n.FarmID == 0 {
		return explorer.Farm{}, shell.Usagef("the node asks for no farm: name one with --farm")
	}
	return client.Farm(c.Context, n.FarmID)
}

// findFarm finds a farm by its number or its name.
func findFarm(c *cli.Context, client *explorer.Client, named string) (explorer.Farm, error) {
	if id, err := strconv.ParseUint(named, 10, 64); err == nil {
		return client.Farm(c.Context, id)
	}
	farms, err := client.AllFarms(c.Context)
	if err != nil {
		return explorer.Farm{}, err
	}
	for _, f := range farms {
		if f.Name == named {
			return f, nil
		}
	}
	return explorer.Farm{}, shell.Usagef("there is no farm %q; `croft farm list` lists them", named)
}

func farmRows(farms []explorer.Farm) render.Rows {
	out := render.Rows{Head: []string{"FARM", "NAME", "OWNER", "CREATED"}}
	for _, f := range farms {
		out.Rows = append(out.Rows, []string{strconv.FormatUint(f.ID, 10), f.Name, f.Owner, render.Clock(f.Created)})
	}
	return out
}
