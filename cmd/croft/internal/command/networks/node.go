package networks

import (
	"net/netip"

	"github.com/pkg/errors"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/command/shell"
	"github.com/croft-edge/croft/cmd/croft/internal/edit"
	"github.com/croft-edge/croft/cmd/croft/internal/mesh"
	"github.com/croft-edge/croft/cmd/croft/internal/project"
	"github.com/croft-edge/croft/cmd/croft/internal/render"
	"github.com/croft-edge/croft/pkg/sign"
)

// addedNode is the answer of add-node.
type addedNode struct {
	Network string `json:"network"`
	shownNode
	KeyFile   string `json:"key_file"`
	PublicKey string `json:"public_key"`
}

func (s *commands) addNode(c *cli.Context) error {
	args, err := shell.Arguments(c, 2, 2, "NAME and NODE")
	if err != nil {
		return err
	}
	if _, err := sign.VerifyingKey(args[1]); err != nil {
		return shell.Usage(err)
	}
	d, n, err := networkDraft(c, args[0])
	if err != nil {
		return err
	}
	failed := func(err error) error {
		return errors.WithMessagef(err, "cannot add node %s to network %q", args[1], n.Name)
	}
	if n.Find(args[1]) != nil {
		return failed(errors.New("it is one of its nodes already"))
	}
	one, err := s.chooseNode(c, d, n, args[1])
	if err != nil {
		return failed(err)
	}
	key, err := s.nodeKey(c, d, n, one.ID)
	if err != nil {
		return failed(err)
	}
	changed, err := edit.AddNode(d.content, n.Name, one, key.named)
	if err == nil {
		err = d.check(changed)
	}
	if err == nil {
		err = key.write()
	}
	if err != nil {
		return failed(err)
	}
	if err := d.write(changed); err != nil {
		key.takeBack()
		return err
	}
	s.hintsOfNode(d.file.FindNetwork(n.Name), one)
	return s.Answer(c, addedNode{n.Name, showNode(one), key.path, key.public}, render.Rows{
		Head: []string{"NODE", one.ID},
		Rows: [][]string{{"subnet", one.Subnet.String()}, {"port", portText(one.Port)}, {"endpoint", endpointText(one.Endpoint)}, {"key", key.path}},
	})
}

// chooseNode makes the node's part from flags, the file and the explorer's facts.
func (s *commands) chooseNode(c *cli.Context, d *draft, n *project.Network, id string) (mesh.Node, error) {
	client, err := s.Client(c, false)
	if err != nil {
		return mesh.Node{}, err
	}
	shown, err := client.Node(c.Context, id)
	if err != nil {
		return mesh.Node{}, err
	}
	facts := factsOf(shown)
	one := mesh.Node{ID: id}
	if one.Subnet, err = subnetOf(c, n, facts.ranges); err != nil {
		return one, err
	}
	if one.Port, err = portOf(c, facts, d.file.Ports(id)); err != nil {
		return one, err
	}
	one.Endpoint, err = s.endpointOf(c, facts, one.Port)
	return one, err
}

// subnetOf is the subnet that the flag asks for, else one that is free.
func subnetOf(c *cli.Context, n *project.Network, others []netip.Prefix) (netip.Prefix, error) {
	text := c.String("subnet")
	if text == "" {
		return n.FreeSubnet(others)
	}
	p, err := netip.ParsePrefix(text)
	if err != nil || !mesh.Within(n.IPRange, p) {
		return p, shell.Usagef("--subnet is %q, must be a part of %s, from /%d to /%d, such as 10.1.1.0/24", text, n.IPRange, mesh.WidestBits, mesh.NarrowestBits)
	}
	for _, other := range others {
		if other.Overlaps(p) {
			return p, errors.Errorf("%s overlaps %s, which the node has itself", p, other)
		}
	}
	return p, nil
}

func (s *commands) endpointOf(c *cli.Context, facts nodeFacts, port uint16) (string, error) {
	switch text := c.String("endpoint"); {
	case text == "none":
		return "", nil
	case text != "":
		endpoint, err := mesh.ParseEndpoint(text, port)
		if err != nil {
			return "", shell.Usage(err)
		}
		return endpoint, nil
	case facts.public.IsValid():
		return netip.AddrPortFrom(facts.public, port).String(), nil
	}
	s.Say("the explorer knows no public address of the node: it will be hidden and call the others; --endpoint HOST names an address")
	return "", nil
}

// hintsOfNode prints hints for a new node of the network.
func (s *commands) hintsOfNode(n *project.Network, one mesh.Node) {
	if mesh.Doubtful(one.Endpoint) {
		s.Say("%s isn't a public address: other nodes refuse to call it unless their operators allow it", one.Endpoint)
	}
	s.warn(n)
	s.Say("`croft apply` carries the change out")
}

// warn warns of hidden nodes that don't reach each other.
func (s *commands) warn(n *project.Network) {
	if warning := n.ApartWarning(); warning != "" {
		s.Say("%s", warning)
	}
}
