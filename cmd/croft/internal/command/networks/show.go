package networks

import (
	"fmt"
	"strconv"

	"github.com/pkg/errors"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/command/shell"
	"github.com/croft-edge/croft/cmd/croft/internal/lifetime"
	"github.com/croft-edge/croft/cmd/croft/internal/mesh"
	"github.com/croft-edge/croft/cmd/croft/internal/project"
	"github.com/croft-edge/croft/cmd/croft/internal/render"
)

// shownNetwork is the shown description of a network. docs/network-cli.md explains
// its members.
type shownNetwork struct {
	Name    string `json:"name"`
	IPRange string `json:"ip_range"`
	// Duration is in the words of the project file.
	Duration string        `json:"duration"`
	Nodes    []shownNode   `json:"nodes"`
	Access   []shownAccess `json:"access"`
}

type shownNode struct {
	Node       string `json:"node"`
	Subnet     string `json:"subnet"`
	Gateway    string `json:"gateway"`
	ListenPort uint16 `json:"listen_port"`
	// Endpoint is empty for a hidden node.
	Endpoint string `json:"endpoint"`
}

type shownAccess struct {
	Name      string `json:"name"`
	Subnet    string `json:"subnet"`
	Address   string `json:"address"`
	PublicKey string `json:"public_key"`
	Via       string `json:"via"`
}

func listed(n *project.Network) shownNetwork {
	out := shownNetwork{Name: n.Name, IPRange: n.IPRange.String(), Duration: lifetime.Text(n.Duration), Nodes: []shownNode{}, Access: []shownAccess{}}
	for _, one := range n.Nodes {
		out.Nodes = append(out.Nodes, showNode(one))
	}
	for _, one := range n.Access {
		out.Access = append(out.Access, showAccess(one))
	}
	return out
}

func showNode(n mesh.Node) shownNode {
	return shownNode{Node: n.ID, Subnet: n.Subnet.String(), Gateway: n.Gateway().String(), ListenPort: n.Port, Endpoint: n.Endpoint}
}

func showAccess(a mesh.Access) shownAccess {
	return shownAccess{Name: a.Name, Subnet: a.Subnet.String(), Address: a.Address().String(), PublicKey: a.PublicKey, Via: a.Via}
}

func networkRows(all []*project.Network) render.Rows {
	out := render.Rows{Head: []string{"NETWORK", "IP RANGE", "NODES", "ACCESS"}}
	for _, n := range all {
		out.Rows = append(out.Rows, []string{n.Name, n.IPRange.String(), strconv.Itoa(len(n.Nodes)), strconv.Itoa(len(n.Access))})
	}
	return out
}

func portText(port uint16) string { return strconv.Itoa(int(port)) }

func endpointText(endpoint string) string {
	if endpoint == "" {
		return "hidden"
	}
	return endpoint
}

func (s *commands) list(c *cli.Context) error {
	if _, err := shell.Arguments(c, 0, 0, "no argument"); err != nil {
		return err
	}
	d, err := readDraft(c)
	if err != nil {
		return err
	}
	out := []shownNetwork{}
	for _, n := range d.file.Networks {
		out = append(out, listed(n))
	}
	return s.Answer(c, out, networkRows(d.file.Networks))
}

func (s *commands) show(c *cli.Context) error {
	args, err := shell.Arguments(c, 1, 1, "one NAME")
	if err != nil {
		return err
	}
	_, n, err := networkDraft(c, args[0])
	if err != nil {
		return err
	}
	rows := render.Rows{Head: []string{"WHO", "SUBNET", "ADDRESS", "PORT", "CALLED AT"}}
	for _, one := range n.Nodes {
		rows.Rows = append(rows.Rows, []string{one.ID, one.Subnet.String(), one.Gateway().String(), portText(one.Port), endpointText(one.Endpoint)})
	}
	for _, one := range n.Access {
		rows.Rows = append(rows.Rows, []string{one.Name, one.Subnet.String(), one.Address().String(), "", "calls " + one.Via})
	}
	if err := s.Answer(c, listed(n), rows); err != nil {
		return err
	}
	s.warn(n)
	return nil
}

func (s *commands) graph(c *cli.Context) error {
	args, err := shell.Arguments(c, 1, 1, "one NAME")
	if err != nil {
		return err
	}
	_, n, err := networkDraft(c, args[0])
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(s.Env.Stdout, n.Dot())
	return errors.Wrap(err, "cannot write the graph")
}
