package networks

import (
	"github.com/pkg/errors"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/command/shell"
	"github.com/croft-edge/croft/cmd/croft/internal/edit"
)

func (s *commands) remove(c *cli.Context) error {
	args, err := shell.Arguments(c, 1, 1, "one NAME")
	if err != nil {
		return err
	}
	d, n, err := networkDraft(c, args[0])
	if err != nil {
		return err
	}
	changed, err := edit.RemoveNetwork(d.content, n.Name)
	if err == nil {
		err = d.check(changed)
	}
	if err != nil {
		return errors.WithMessagef(err, "cannot remove network %q", n.Name)
	}
	if err := d.write(changed); err != nil {
		return err
	}
	s.Say("%s isn't in %s any more; `croft apply --prune` ends it on its %d nodes", n.Name, d.path, len(n.Nodes))
	return nil
}

func (s *commands) removeAccess(c *cli.Context) error {
	args, err := shell.Arguments(c, 2, 2, "NAME and ACCESS")
	if err != nil {
		return err
	}
	d, n, err := networkDraft(c, args[0])
	if err != nil {
		return err
	}
	if n.FindAccess(args[1]) == nil {
		return shell.Usagef("%q has no access to network %q; `croft network show %s` lists the accesses", args[1], n.Name, n.Name)
	}
	changed, err := edit.RemoveAccess(d.content, n.Name, args[1])
	if err == nil {
		err = d.check(changed)
	}
	if err != nil {
		return errors.WithMessagef(err, "cannot remove access %q of network %q", args[1], n.Name)
	}
	if err := d.write(changed); err != nil {
		return err
	}
	s.Say("%s has no access any more once `croft apply` has updated the nodes", args[1])
	return nil
}

func (s *commands) removeNode(c *cli.Context) error {
	args, err := shell.Arguments(c, 2, 2, "NAME and NODE")
	if err != nil {
		return err
	}
	d, n, err := networkDraft(c, args[0])
	if err != nil {
		return err
	}
	one, err := findNode(n, args[1])
	if err != nil {
		return err
	}
	failed := func(err error) error {
		return errors.WithMessagef(err, "cannot remove node %s of network %q", one.ID, n.Name)
	}
	for _, a := range n.Access {
		if a.Via == one.ID {
			return failed(errors.Errorf("access %q uses it; `croft network remove-access %s %s` first", a.Name, n.Name, a.Name))
		}
	}
	changed, err := edit.RemoveNode(d.content, n.Name, one.ID)
	if err == nil {
		err = d.check(changed)
	}
	if err != nil {
		return failed(err)
	}
	if err := d.write(changed); err != nil {
		return err
	}
	s.warn(d.file.FindNetwork(n.Name))
	s.Say("the file with its key is left; `croft apply --prune` ends the network on the node")
	return nil
}
