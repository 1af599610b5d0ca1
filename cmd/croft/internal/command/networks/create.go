package networks

import (
	"net/netip"

	"github.com/pkg/errors"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/command/shell"
	"github.com/croft-edge/croft/cmd/croft/internal/edit"
	"github.com/croft-edge/croft/cmd/croft/internal/mesh"
	"github.com/croft-edge/croft/cmd/croft/internal/project"
)

// usualDuration is that of a project file which croft makes.
const usualDuration = "30d"

func (s *commands) create(c *cli.Context) error {
	args, err := shell.Arguments(c, 1, 1, "one NAME")
	if err != nil {
		return err
	}
	name := args[0]
	if err := project.CheckName(name); err != nil {
		return shell.Usage(errors.Wrap(err, "cannot create a network"))
	}
	d, fresh, err := freshDraft(c)
	if err == nil && !fresh {
		d, err = readDraft(c)
	}
	if err != nil {
		return err
	}
	if d.file.FindNetwork(name) != nil || d.file.Find(name) != nil {
		return errors.Errorf("cannot create network %q: there is a network or workload of that name in %s", name, d.path)
	}
	ipRange, err := s.rangeOf(c, d.file.Ranges())
	if err != nil {
		return err
	}
	before := d.content
	if fresh {
		before = edit.NewFile(d.file.Project, usualDuration)
	}
	changed, err := edit.AddNetwork(before, name, ipRange)
	if err == nil {
		err = d.check(changed)
	}
	if err != nil {
		return errors.WithMessagef(err, "cannot create network %q", name)
	}
	if err := d.write(changed); err != nil {
		return err
	}
	if fresh {
		s.Say("%s is made, of project %q", d.path, d.file.Project)
	}
	s.Say("%s has no nodes yet; `croft network add-node %s NODE` adds one", name, name)
	return s.Answer(c, listed(d.file.FindNetwork(name)), networkRows([]*project.Network{d.file.FindNetwork(name)}))
}

// rangeOf is the range that the flag asks for, else one that is free.
func (s *commands) rangeOf(c *cli.Context, others []netip.Prefix) (netip.Prefix, error) {
	text := c.String("ip-range")
	if text == "" {
		return mesh.FreeRange(others)
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return p, shell.Usagef("--ip-range is %q, must be an address range such as 10.1.0.0/16", text)
	}
	if err := mesh.CheckRange(p); err != nil {
		return p, shell.Usage(errors.Wrap(err, "--ip-range"))
	}
	for _, other := range others {
		if other.Overlaps(p) {
			s.Say("another network of the file uses %s too: one machine can't be in both at once", other)
		}
	}
	return p, nil
}
