package networks

import (
	"fmt"
	"os"
	"strings"

	"github.com/pkg/errors"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/command/shell"
	"github.com/croft-edge/croft/cmd/croft/internal/edit"
	"github.com/croft-edge/croft/cmd/croft/internal/mesh"
	"github.com/croft-edge/croft/cmd/croft/internal/project"
	"github.com/croft-edge/croft/cmd/croft/internal/render"
)

// addedAccess is the answer of add-access. Config holds the private key, unless
// it went into a file.
type addedAccess struct {
	Network string `json:"network"`
	shownAccess
	Endpoint  string   `json:"endpoint"`
	Addresses []string `json:"addresses"`
	File      string   `json:"file,omitempty"`
	Config    string   `json:"config,omitempty"`
}

func (s *commands) addAccess(c *cli.Context) error {
	args, err := shell.Arguments(c, 2, 2, "NAME and ACCESS")
	if err != nil {
		return err
	}
	if err := project.CheckName(args[1]); err != nil {
		return shell.Usage(errors.Wrap(err, "cannot add an access"))
	}
	d, n, err := networkDraft(c, args[0])
	if err != nil {
		return err
	}
	failed := func(err error) error {
		return errors.WithMessagef(err, "cannot add access %q to network %q", args[1], n.Name)
	}
	quick, err := s.chooseAccess(c, d, n, args[1])
	if err != nil {
		return failed(err)
	}
	changed, err := edit.AddAccess(d.content, n.Name, quick.Access)
	if err == nil {
		err = d.check(changed)
	}
	if err != nil {
		return failed(err)
	}
	out := c.String("out")
	if out != "" {
		if err := writeSecret(out, quick.String()); err != nil {
			return failed(err)
		}
	}
	if err := d.write(changed); err != nil {
		if out != "" {
			_ = os.Remove(out)
		}
		return err
	}
	if mesh.Doubtful(n.Find(quick.Access.Via).Endpoint) {
		s.Say("%s isn't a public address: the access must be able to reach it", n.Find(quick.Access.Via).Endpoint)
	}
	s.Say("%s has access once `croft apply` has updated the network's nodes", args[1])
	return s.answerAccess(c, quick, out)
}

// chooseAccess makes the access of flags and the file.
func (s *commands) chooseAccess(c *cli.Context, d *draft, n *project.Network, name string) (mesh.Quick, error) {
	out := mesh.Quick{Network: n.Network, Access: mesh.Access{Name: name}}
	if n.FindAccess(name) != nil {
		return out, errors.New("it has one of that name already")
	}
	user, err := s.Key(c)
	if err != nil {
		return out, err
	}
	out.User = user.ID()
	via, err := viaOf(c, n)
	if err != nil {
		return out, err
	}
	out.Access.Via = via.ID
	for i := range n.Nodes {
		if n.Nodes[i].ID == via.ID {
			if out.ViaKey, err = n.PublicKey(i, d.source(s.Env)); err != nil {
				return out, err
			}
		}
	}
	if out.Access.Subnet, err = subnetOf(c, n, nil); err != nil {
		return out, err
	}
	if out.Access.PublicKey = c.String("public-key"); out.Access.PublicKey != "" {
		return out, errors.WithMessage(shell.Usage(mesh.CheckKey(out.Access.PublicKey)), "--public-key")
	}
	if out.PrivateKey, err = mesh.NewKey(); err != nil {
		return out, err
	}
	out.Access.PublicKey, err = mesh.PublicKey(out.PrivateKey)
	return out, err
}

// viaOf is the node that is called: the flag's, else the first public one.
func viaOf(c *cli.Context, n *project.Network) (*mesh.Node, error) {
	named := c.String("node")
	if named == "" {
		if n.Relay() == nil {
			return nil, errors.Errorf("none of its nodes has an endpoint to call; `croft network add-node %s NODE --endpoint HOST` adds one", n.Name)
		}
		return n.Relay(), nil
	}
	via, err := findNode(n, named)
	if err == nil && via.Hidden() {
		err = shell.Usagef("node %s is hidden: it has no endpoint to call", via.ID)
	}
	return via, err
}

// findNode finds a network's node by its ID, or by how that begins.
func findNode(n *project.Network, named string) (*mesh.Node, error) {
	var found *mesh.Node
	for i := range n.Nodes {
		switch id := n.Nodes[i].ID; {
		case id == named:
			return &n.Nodes[i], nil
		case named != "" && strings.HasPrefix(id, named) && found != nil:
			return nil, shell.Usagef("more than one node of network %q begins with %q", n.Name, named)
		case named != "" && strings.HasPrefix(id, named):
			found = &n.Nodes[i]
		}
	}
	if found == nil {
		return nil, shell.Usagef("%q isn't a node of network %q; `croft network show %s` lists them", named, n.Name, n.Name)
	}
	return found, nil
}

func (s *commands) answerAccess(c *cli.Context, quick mesh.Quick, file string) error {
	format, err := s.Output(c)
	if err != nil {
		return err
	}
	if format == render.Table && file == "" {
		_, err := fmt.Fprint(s.Env.Stdout, quick.String())
		return errors.Wrap(err, "cannot write the wg-quick file")
	}
	a := addedAccess{Network: quick.Network.Name, shownAccess: showAccess(quick.Access), Endpoint: quick.Network.Find(quick.Access.Via).Endpoint, File: file}
	for _, p := range quick.Addresses() {
		a.Addresses = append(a.Addresses, p.String())
	}
	if file == "" {
		a.Config = quick.String()
	}
	return s.Answer(c, a, render.Rows{
		Head: []string{"ACCESS", a.Name},
		Rows: [][]string{{"addresses", strings.Join(a.Addresses, ", ")}, {"calls", a.Endpoint}, {"file", file}},
	})
}
