package workspace

import (
	"path/filepath"

	"github.com/pkg/errors"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/command/shell"
	"github.com/croft-edge/croft/cmd/croft/internal/deploy"
	"github.com/croft-edge/croft/cmd/croft/internal/route"
	"github.com/croft-edge/croft/cmd/croft/internal/verdict"
	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/sign"
)

// Router finds the way to nodes with the settings of c.
func Router(s *shell.Shell, c *cli.Context) *route.Router {
	config := route.Config{
		Client:  func(signed bool) (*explorer.Client, error) { return s.Client(c, signed) },
		Key:     func() (sign.KeyPair, error) { return s.Key(c) },
		Address: c.String("node-address"), Now: s.Env.Now, Interrupted: c.Context.Err,
	}
	url, err := s.Explorer(c)
	dir, dirErr := s.Env.ConfigDir()
	if err == nil && dirErr == nil {
		config.Explorer, config.Notes = url, filepath.Join(dir, "nodes.json")
	}
	return route.New(config)
}

// Target is a workload that is asked for at its node. Name is empty outside of a project.
type Target struct {
	Name, ID, Node string
}

// Label is the name, or the ID.
func (t Target) Label() string {
	if t.Name != "" {
		return t.Name
	}
	return t.ID
}

// Targets finds the workloads that arguments name: in the project's state, so that no
// explorer can send us to another node, or among the documents that the user has signed.
func Targets(s *shell.Shell, c *cli.Context, args []string) ([]Target, error) {
	if OnlyIDs(args) && !Present(c) {
		return targetsOfIDs(s, c, args)
	}
	w, err := Open(s, c, ReadOnly)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	names, ids, err := w.Split(args)
	if err != nil {
		return nil, err
	}
	var out []Target
	for _, name := range names {
		e := w.State.Current[name]
		if e.ID == "" {
			return nil, errors.Errorf("cannot ask the node about %q: it is signed and not pushed yet; `croft apply` pushes it", name)
		}
		out = append(out, Target{name, e.ID, e.Node})
	}
	more, err := targetsOfIDs(s, c, ids)
	return append(out, more...), err
}

// targetsOfIDs reads the documents that the explorer shows: only one that the user has
// signed is believed about its node.
func targetsOfIDs(s *shell.Shell, c *cli.Context, ids []string) ([]Target, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	d, err := Deployer(s, c)
	if err != nil {
		return nil, err
	}
	var out []Target
	for _, id := range ids {
		o, err := ownedID(c, d, Router(s, c), id)
		if err != nil {
			return nil, err
		}
		out = append(out, Target{ID: id, Node: o.Document.NodeID})
	}
	return out, nil
}

// ownedID is the reservation of that ID, which the user has signed.
func ownedID(c *cli.Context, d *deploy.Deployer, router *route.Router, id string) (deploy.Observation, error) {
	o, err := d.Observer.ID(c.Context, id)
	if err != nil {
		return o, router.Away(err)
	}
	return o, checkOwner(d, id, o)
}

func checkOwner(d *deploy.Deployer, id string, o deploy.Observation) error {
	if o.State == verdict.Forged {
		return errors.Errorf("cannot believe the explorer about %s: %s", id, o.Problem)
	}
	if o.Document.User != d.User {
		return errors.Errorf("cannot ask the node about %s: it is of user %s, and the key is of %s", id, o.Document.User, d.User)
	}
	return nil
}

// OneTarget is Targets where there must be one.
func OneTarget(s *shell.Shell, c *cli.Context, arg string) (Target, error) {
	found, err := Targets(s, c, []string{arg})
	if err != nil {
		return Target{}, err
	}
	if len(found) != 1 {
		return Target{}, shell.Usagef("%q matches %d reservations, it must match one", arg, len(found))
	}
	return found[0], nil
}

// Observe is OneTarget with what the explorer shows of the reservation. While the explorer is away, a reservation of the
// project is observed as it was signed, in the state verdict.Unseen, and router gives the explorer up.
func Observe(s *shell.Shell, c *cli.Context, router *route.Router, arg string) (Target, deploy.Observation, error) {
	at, err := OneTarget(s, c, arg)
	if err != nil {
		return at, deploy.Observation{}, err
	}
	if at.Name == "" {
		d, err := Deployer(s, c)
		if err != nil {
			return at, deploy.Observation{}, err
		}
		o, err := ownedID(c, d, router, at.ID)
		if err == nil {
			at.Node = o.Document.NodeID
		}
		return at, o, err
	}
	w, err := Open(s, c, ReadOnly)
	if err != nil {
		return at, deploy.Observation{}, err
	}
	defer w.Close()
	e := w.State.Current[at.Name]
	if e == nil || e.ID != at.ID {
		return at, deploy.Observation{}, errors.Errorf("cannot ask about %q: another croft has just changed the project", at.Name)
	}
	o, err := w.Deploy.Observer.Entry(c.Context, e)
	var away *route.AwayError
	if err = router.Away(err); !errors.As(err, &away) {
		return at, o, err
	}
	router.GiveUp(away)
	own, err := e.Reservation()
	if err != nil {
		return at, o, err
	}
	return at, deploy.Observation{Verdict: verdict.Verdict{State: verdict.Unseen}, Document: own, Expires: own.Expires()}, nil
}
