package deploy

import (
	"context"
	"fmt"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/cmd/croft/internal/lifetime"
	"github.com/croft-edge/croft/cmd/croft/internal/project"
	"github.com/croft-edge/croft/cmd/croft/internal/state"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// create signs a reservation for w, writes it into the state, then pushes it.
func (d *Deployer) create(ctx context.Context, w *project.Workload) (*state.Entry, error) {
	e, err := d.sign(ctx, w)
	if err != nil {
		return nil, err
	}
	d.State.Current[w.Name] = e
	if err := d.save(); err != nil {
		return nil, err
	}
	return e, d.push(ctx, e)
}

// succeed is create for a container that is to take the place of the current one,
// which stays in the state until its end was seen.
func (d *Deployer) succeed(ctx context.Context, w *project.Workload) error {
	e, err := d.sign(ctx, w)
	if err != nil {
		return err
	}
	d.State.Takes(e)
	if err := d.save(); err != nil {
		return err
	}
	return d.push(ctx, e)
}

func (d *Deployer) sign(ctx context.Context, w *project.Workload) (*state.Entry, error) {
	known, err := d.targets(ctx, w)
	if err != nil {
		return nil, err
	}
	ids, hashes := map[string]string{}, map[string]string{}
	for name, used := range known.Workloads {
		ids[name], hashes[name] = used.ID, used.Hash
	}
	data, err := w.Data(known, d.open, func(s *project.Secret) (string, error) { return d.seal(w, s) })
	if err != nil {
		return nil, err
	}
	if data, err = d.named(w, data); err != nil {
		return nil, err
	}
	digest, err := d.digest(w)
	if err != nil {
		return nil, err
	}
	r := workload.Reservation{NodeID: w.Node, Type: w.Type, Data: data, Created: d.Now(), Duration: w.Duration}
	if err := r.Sign(d.Key.Private()); err != nil {
		return nil, err
	}
	if err := w.Explain(workload.Validate(&r)); err != nil {
		return nil, err
	}
	document, err := workload.Encode(&r)
	if err != nil {
		return nil, err
	}
	return &state.Entry{
		Name: w.Name, Type: w.Type, Node: w.Node, Network: w.Network,
		Digest: digest, Duration: w.Duration, Uses: ids, Hashes: hashes, Document: string(document),
	}, nil
}

func (d *Deployer) digest(w *project.Workload) (string, error) {
	return w.Digest(DigestKey(d.Key), d.open)
}

func (d *Deployer) open(s *project.Secret) (string, error) { return s.Open(d.Source) }

// seal makes a secret's box, bound to user, type and field.
func (d *Deployer) seal(w *project.Workload, s *project.Secret) (string, error) {
	plain, err := s.Open(d.Source)
	if err != nil {
		return "", err
	}
	box, err := workload.SealSecret(s.Node, d.Key.ID(), w.Type, s.Path, []byte(plain))
	return box, errors.Wrapf(err, "cannot make the data of %q", w.Name)
}

// push brings an entry's document to the explorer and keeps the ID that it
// gives. It may be called again: the same document gets the same ID. What the
// explorer refuses for good is forgotten.
func (d *Deployer) push(ctx context.Context, e *state.Entry) error {
	r, err := e.Reservation()
	if err != nil {
		return err
	}
	var id string
	err = again(ctx, func() (err error) {
		id, err = d.Explorer.Reserve(ctx, r)
		return err
	})
	if err != nil {
		return d.pushFailed(e, err)
	}
	e.ID = id
	if err := d.save(); err != nil {
		return err
	}
	d.say("%s: pushed as %s to node %s, until %s (%s)", e.Name, id, e.Node, r.Expires().Local().Format("2006-01-02 15:04"), lifetime.Text(r.Expires().Sub(d.Now())))
	if away := d.away(ctx, e.Node); away != "" {
		d.say("%s: node %s is away%s: it picks %s up when it is back", e.Name, e.Node, away, id)
	}
	return nil
}

func (d *Deployer) pushFailed(e *state.Entry, cause error) error {
	cause = errors.Wrapf(cause, "cannot push %q", e.Name)
	if later(cause) {
		return fmt.Errorf("%w; the signed document is kept, and apply pushes the same one again", cause)
	}
	if node.KindOf(cause) == node.Internal {
		return cause
	}
	if d.State.Current[e.Name] == e {
		d.State.Back(e)
	}
	if err := d.save(); err != nil {
		return err
	}
	return cause
}

// Recover pushes what was signed and has no ID yet, so that every entry is
// known to the explorer or gone from the state.
func (d *Deployer) Recover(ctx context.Context) error {
	for _, name := range d.State.Names() {
		e := d.State.Current[name]
		if e.ID != "" {
			continue
		}
		r, err := e.Reservation()
		if err != nil {
			return err
		}
		if r.ExpiredAt(d.Now()) {
			d.State.Back(e)
			continue
		}
		d.say("%s: the answer to its push isn't known; pushing the same document again", name)
		if err := d.push(ctx, e); err != nil {
			return err
		}
	}
	return d.save()
}

// RenewEntry signs that an entry's workload lives until n.Expires; duration is
// what the project file says now.
func (d *Deployer) RenewEntry(ctx context.Context, e *state.Entry, n workload.Renewal, duration time.Duration) error {
	r, err := e.Reservation()
	if err != nil {
		return err
	}
	n, err = d.Renew(ctx, r, n)
	if err != nil {
		return errors.Wrapf(err, "cannot renew %q", e.Name)
	}
	e.Renewal, e.Duration = &n, duration
	if err := d.save(); err != nil {
		return err
	}
	d.say("%s: %s lives until %s", e.Name, e.ID, n.Expires.Local().Format("2006-01-02 15:04"))
	return nil
}

// Renew signs and brings a renewal of r, and returns it.
func (d *Deployer) Renew(ctx context.Context, r *workload.Reservation, n workload.Renewal) (workload.Renewal, error) {
	signed := *r
	if err := signed.SignRenewal(n, d.Key.Private()); err != nil {
		return n, err
	}
	return *signed.Renewal, again(ctx, func() error { return d.Explorer.Renew(ctx, r.ID, *signed.Renewal) })
}
