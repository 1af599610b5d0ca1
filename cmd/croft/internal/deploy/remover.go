package deploy

import (
	"context"
	"slices"
	"sort"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/cmd/croft/internal/plan"
	"github.com/croft-edge/croft/cmd/croft/internal/state"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// Remover ends reservations: it signs their deletions and brings them to the explorer.
type Remover struct {
	explorer interface {
		Delete(ctx context.Context, id string, d workload.Deletion) error
	}
	key      sign.KeyPair
	now      func() time.Time
	observer *Observer
	ledger   *ledger
	log      progress
}

// leave signs the deletion of the current entry of that name and of those before it,
// writes it into the state, then tells the explorer.
func (m *Remover) leave(ctx context.Context, name string) ([]*state.Entry, error) {
	r, err := m.ledger.Current[name].Reservation()
	if err != nil {
		return nil, err
	}
	if err := r.SignDeletion(workload.Deletion{Created: m.now()}, m.key.Private()); err != nil {
		return nil, err
	}
	before, err := m.leaveBefore(ctx, m.ledger.Current[name])
	if err != nil {
		return nil, err
	}
	e := m.ledger.Leave(name, r.Deletion)
	if err := m.ledger.save(); err != nil {
		return nil, err
	}
	for _, b := range before {
		if err := m.tell(ctx, b); err != nil {
			return append(before, e), err
		}
	}
	return append(before, e), m.tell(ctx, e)
}

// tell pushes the deletion of a leaving entry to the explorer. An entry that the explorer
// doesn't know stays in the state, for its node may have it until its signed end: the
// explorer's answer proves nothing.
func (m *Remover) tell(ctx context.Context, e *state.Entry) error {
	err := again(ctx, func() error { return m.explorer.Delete(ctx, e.ID, *e.Deletion) })
	if errors.Is(err, node.NotExist) {
		m.log.say("%s: the explorer doesn't know %s, so its deletion can't reach the node", e.Name, e.ID)
		return nil
	}
	if err != nil {
		return errors.Wrapf(err, "cannot delete %q", e.Name)
	}
	e.Told = true
	if err := m.ledger.save(); err != nil {
		return err
	}
	m.log.say("%s: deletion of %s is signed and pushed", e.Name, e.ID)
	return nil
}

// Retell pushes the deletions that the explorer hasn't acknowledged yet.
func (m *Remover) Retell(ctx context.Context) error {
	for _, e := range append([]*state.Entry(nil), m.ledger.Leaving...) {
		if e.Told {
			continue
		}
		if err := m.tell(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// Delete signs and pushes the deletion of a reservation that isn't in the state.
func (m *Remover) Delete(ctx context.Context, r *workload.Reservation) error {
	if r.User != m.key.ID() {
		return errors.Errorf("cannot delete %s: it is of user %s, and the key is of %s", r.ID, r.User, m.key.ID())
	}
	signed := *r
	if err := signed.SignDeletion(workload.Deletion{Created: m.now()}, m.key.Private()); err != nil {
		return err
	}
	if err := again(ctx, func() error { return m.explorer.Delete(ctx, r.ID, *signed.Deletion) }); err != nil {
		return errors.Wrapf(err, "cannot delete %s", r.ID)
	}
	m.log.say("%s: deletion is signed and pushed", r.ID)
	return nil
}

// Leave deletes the reservations of those names, users before the reservations that they use.
func (m *Remover) Leave(ctx context.Context, names []string) (Applied, error) {
	var out Applied
	names = append([]string(nil), names...)
	m.usersFirst(names)
	for _, name := range names {
		e, err := m.leave(ctx, name)
		if err != nil {
			return out, err
		}
		out.Left = append(out.Left, e...)
	}
	return out, nil
}

// usersFirst sorts names so that containers and VMs go before volumes and networks.
func (m *Remover) usersFirst(names []string) {
	rank := map[workload.Type]int{}
	for i, t := range workload.Types() {
		rank[t] = -i
	}
	sort.SliceStable(names, func(i, j int) bool {
		return rank[m.ledger.Current[names[i]].Type] < rank[m.ledger.Current[names[j]].Type]
	})
}

// leaveBefore signs the deletions of the entries that a leaving one replaces: where its node
// has given it up, one of them runs.
func (m *Remover) leaveBefore(ctx context.Context, e *state.Entry) ([]*state.Entry, error) {
	var out []*state.Entry
	for _, b := range e.Before {
		o, err := m.observer.Entry(ctx, b)
		if err != nil {
			return out, err
		}
		if b.ID == "" || phase(o.Verdict) == plan.Ended {
			e.Drop(b)
			continue
		}
		r, err := b.Reservation()
		if err != nil {
			return out, err
		}
		if err := r.SignDeletion(workload.Deletion{Created: m.now()}, m.key.Private()); err != nil {
			return out, err
		}
		m.ledger.LeaveBefore(e, b, r.Deletion)
		out = append(out, b)
	}
	return out, nil
}

// MountedBy names the containers of the user that mount a volume and haven't ended,
// as the explorer shows them: those of the project by their names, others by IDs.
func (m *Remover) MountedBy(ctx context.Context, volume *workload.Reservation) ([]string, error) {
	if volume.Type != workload.TypeVolume || volume.User != m.key.ID() {
		return nil, nil
	}
	all, err := m.observer.Mine(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, o := range all {
		if o.Document.Type == workload.TypeContainer && o.Document.NodeID == volume.NodeID && mayLive(o, m.now()) && mounts(o.Document, volume.ID) {
			out = append(out, m.ledger.label(o.Document.ID))
		}
	}
	return out, nil
}

func mounts(container *workload.Reservation, volume string) bool {
	data, err := workload.DataOf[workload.Container](container)
	return err == nil && slices.ContainsFunc(data.Mounts, func(one workload.Mount) bool { return one.VolumeID == volume })
}
