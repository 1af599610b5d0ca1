package command

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/pkg/errors"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/edit"
	"github.com/croft-edge/croft/cmd/croft/internal/mesh"
	"github.com/croft-edge/croft/cmd/croft/internal/project"
	"github.com/croft-edge/croft/cmd/croft/internal/render"
	"github.com/croft-edge/croft/pkg/sign"
)

// addedNode is what add-node answers.
type addedNode struct {
	Network string `json:"network"`
	shownNode
	KeyFile   string `json:"key_file"`
	PublicKey string `json:"public_key"`
}

func (s *shell) networkAddNode(c *cli.Context) error {
	args, err := arguments(c, 2, 2, "NAME and NODE")
	if err != nil {
		return err
	}
	if _, err := sign.VerifyingKey(args[1]); err != nil {
		return &usageError{err}
	}
	d, n, err := s.networkDraft(c, args[0])
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
	return s.answer(c, addedNode{n.Name, showNode(one), key.path, key.public}, render.Rows{
		Head: []string{"NODE", one.ID},
		Rows: [][]string{{"subnet", one.Subnet.String()}, {"port", portText(one.Port)}, {"endpoint", endpointText(one.Endpoint)}, {"key", key.path}},
	})
}

// chooseNode makes the node's part of flags, the file and what the explorer knows.
func (s *shell) chooseNode(c *cli.Context, d *draft, n *project.Network, id string) (mesh.Node, error) {
	client, err := s.client(c, false)
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
	for _, p := range facts.ranges {
		if n.IPRange.Overlaps(p) {
			s.say("the node has %s itself, which is in the range %s of %s: it may refuse the network", p, n.IPRange, n.Name)
		}
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
		return p, usagef("--subnet is %q, must be a part of %s, from /%d to /%d, such as 10.1.1.0/24", text, n.IPRange, mesh.WidestBits, mesh.NarrowestBits)
	}
	for _, other := range others {
		if other.Overlaps(p) {
			return p, errors.Errorf("%s overlaps %s, which the node has itself", p, other)
		}
	}
	return p, nil
}

func (s *shell) endpointOf(c *cli.Context, facts nodeFacts, port uint16) (string, error) {
	switch text := c.String("endpoint"); {
	case text == "none":
		return "", nil
	case text != "":
		endpoint, err := mesh.ParseEndpoint(text, port)
		if err != nil {
			return "", &usageError{err}
		}
		return endpoint, nil
	case facts.public.IsValid():
		return netip.AddrPortFrom(facts.public, port).String(), nil
	}
	s.say("the explorer knows no public address of the node: it will be a hidden one, which calls the others; --endpoint HOST names an address")
	return "", nil
}

// hintsOfNode says what is worth knowing once the node is in the network.
func (s *shell) hintsOfNode(n *project.Network, one mesh.Node) {
	if mesh.Doubtful(one.Endpoint) {
		s.say("%s isn't a public address: other nodes refuse to call it unless their operators allow it", one.Endpoint)
	}
	s.apart(n)
	s.say("`croft apply` makes it so")
}

// apart says that hidden nodes don't reach each other.
func (s *shell) apart(n *project.Network) {
	if nodes := n.Apart(); len(nodes) > 0 {
		s.say("the %d nodes of %s are all hidden, and can't reach each other until it has a public one: `croft network add-node %s NODE --endpoint HOST`", len(nodes), n.Name, n.Name)
	}
}

// nodeKey is a node's private key on its way into a file.
type nodeKey struct {
	// path is the file's, named is how the project file says it.
	path, named     string
	private, public string
	made            bool
}

// nodeKey makes the key, or takes the one that is in the file of the flag.
func (s *shell) nodeKey(c *cli.Context, d *draft, n *project.Network, id string) (*nodeKey, error) {
	folder := filepath.Dir(d.path)
	k := &nodeKey{path: c.String("key")}
	if k.path == "" {
		k.path = filepath.Join(folder, "keys", n.Name+"-"+id[:8]+".key")
		if _, err := os.Lstat(k.path); err == nil {
			return nil, errors.Errorf("%s is there, and a key is never replaced; --key %s uses it, or names another file", k.path, k.path)
		}
	}
	from, err := filepath.Abs(folder)
	if err != nil {
		return nil, errors.Wrap(err, "cannot name the key's file")
	}
	to, err := filepath.Abs(k.path)
	if err != nil {
		return nil, errors.Wrap(err, "cannot name the key's file")
	}
	if k.named, err = filepath.Rel(from, to); err != nil {
		return nil, errors.Wrap(err, "cannot name the key's file")
	}
	k.made = true
	if info, err := os.Stat(k.path); err == nil {
		k.made = false
		if info.Mode().Perm()&0o077 != 0 {
			return nil, errors.Errorf("%s may be read by others (mode %04o), must be 0600", k.path, info.Mode().Perm())
		}
	}
	if err := k.read(); err != nil {
		return nil, err
	}
	return k, k.alone(n, d.source(s.env))
}

func (k *nodeKey) read() (err error) {
	if k.made {
		if k.private, err = mesh.NewKey(); err != nil {
			return err
		}
	} else {
		content, err := os.ReadFile(k.path)
		if err != nil {
			return errors.Wrap(err, "cannot read key")
		}
		k.private = strings.TrimSpace(string(content))
	}
	k.public, err = mesh.PublicKey(k.private)
	return errors.WithMessage(err, k.path)
}

// alone checks that nobody in the network has the same key. Keys that can't be
// opened here are looked at by apply.
func (k *nodeKey) alone(n *project.Network, open func(*project.Secret) (string, error)) error {
	for i, one := range n.Nodes {
		if key, err := n.PublicKey(i, open); err == nil && key == k.public {
			return errors.Errorf("%s is the key of node %s already; each needs one of its own", k.path, one.ID)
		}
	}
	return nil
}

func (k *nodeKey) write() error {
	if !k.made {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(k.path), 0o700); err != nil {
		return errors.Wrap(err, "cannot write key")
	}
	return writeSecret(k.path, k.private+"\n")
}

// takeBack removes a key that was made for nothing.
func (k *nodeKey) takeBack() {
	if k.made {
		_ = os.Remove(k.path)
	}
}
