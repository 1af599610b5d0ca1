package command

import (
	"context"
	"fmt"
	"net"

	"github.com/pkg/errors"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/deploy"
	"github.com/croft-edge/croft/cmd/croft/internal/verdict"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/nodeapi"
)

// target is a workload that is asked for at its node.
type target struct {
	name, id, node string
}

func (t target) label() string {
	if t.name != "" {
		return t.name
	}
	return t.id
}

// talkFlags are those of every command that speaks to a node. The project's
// file has no short name here: -f is for what is followed.
func talkFlags(more ...cli.Flag) []cli.Flag {
	return append(more,
		&cli.StringFlag{Name: "file", Usage: "the project `FILE` (default: croft.yaml here)", TakesFile: true},
		&cli.StringFlag{Name: "node-address", Usage: "speak to the node at this `HOST:PORT` and nowhere else; it still has to show its key"},
	)
}

// targets finds the workloads that arguments name: by the project's state, so
// that no explorer can send us to another node, or by what the user has signed.
func (s *shell) targets(c *cli.Context, args []string) ([]target, error) {
	if onlyIDs(args) && !s.hasProject(c) {
		return s.targetsOfIDs(c, args)
	}
	w, err := s.open(c, holdNot)
	if err != nil {
		return nil, err
	}
	defer w.close()
	names, ids, err := w.split(args)
	if err != nil {
		return nil, err
	}
	var out []target
	for _, name := range names {
		e := w.State.Current[name]
		if e.ID == "" {
			return nil, errors.Errorf("cannot speak about %q: it is signed and not pushed yet; `croft apply` pushes it", name)
		}
		out = append(out, target{name, e.ID, e.Node})
	}
	more, err := s.targetsOfIDs(c, ids)
	return append(out, more...), err
}

// targetsOfIDs looks at the documents that the explorer shows: only one that the
// user has signed says on which node it is.
func (s *shell) targetsOfIDs(c *cli.Context, ids []string) ([]target, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	d, err := s.deployer(c)
	if err != nil {
		return nil, err
	}
	var out []target
	for _, id := range ids {
		o, err := d.ObserveID(c.Context, id)
		if err != nil {
			return nil, s.away(c, err)
		}
		if err := ours(d, id, o); err != nil {
			return nil, err
		}
		out = append(out, target{id: id, node: o.Document.NodeID})
	}
	return out, nil
}

func ours(d *deploy.Deployer, id string, o deploy.Observation) error {
	if o.State == verdict.Forged {
		return errors.Errorf("cannot believe the explorer about %s: %s", id, o.Problem)
	}
	if o.Document.User != d.Key.ID() {
		return errors.Errorf("cannot speak about %s: it is of user %s, and the key is of %s", id, o.Document.User, d.Key.ID())
	}
	return nil
}

// oneTarget is targets where there must be one.
func (s *shell) oneTarget(c *cli.Context, arg string) (target, error) {
	found, err := s.targets(c, []string{arg})
	if err != nil {
		return target{}, err
	}
	if len(found) != 1 {
		return target{}, usagef("%q stands for %d reservations, it must be one", arg, len(found))
	}
	return found[0], nil
}

// reach connects to a node: where the user says that it is, else where the
// explorer says, else through the explorer; where it was last when the explorer is away.
func (s *shell) reach(ctx context.Context, c *cli.Context, nodeID string) (*nodeapi.Conn, error) {
	key, err := s.key(c)
	if err != nil {
		return nil, err
	}
	d := nodeapi.Dialer{Node: nodeID, User: key, Now: s.env.Now, Address: c.String("node-address")}
	if d.Address != "" {
		return d.Dial(ctx)
	}
	client, err := s.client(c, true)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	away := error(nil)
	if s.explorerAway != nil {
		d.Address, away = s.rememberedDoor(nodeID), s.explorerAway
	} else {
		d.Address, away = s.findDoor(ctx, c, client, nodeID)
	}
	if away == nil {
		d.Tunnel = func(ctx context.Context) (net.Conn, error) { return client.ConnectNode(ctx, nodeID) }
		return d.Dial(ctx)
	}
	if d.Address == "" {
		return nil, errors.Wrapf(away, "cannot reach node %s: no address of its own is remembered", nodeID)
	}
	conn, err := d.Dial(ctx)
	if err != nil {
		return nil, node.WithKind(node.KindOf(err), fmt.Errorf("%w; %w", err, away))
	}
	return conn, nil
}
