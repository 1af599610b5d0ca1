package place

import (
	"context"
	stderrors "errors"
	"iter"
	"slices"
	"sync"

	"github.com/croft-edge/croft/pkg/clip"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/supervise"
	"github.com/croft-edge/croft/provision/persist"
)

// Initialize implements persist.Provider. It brings the instances up side by side: none waits for another.
func (p *Provider) Initialize(ctx context.Context, machine persist.MachineID) error {
	if machine == "" || len(machine) > persist.MaxName {
		return node.Errorf(node.Invalid, "cannot use machine %q: it must be a node's ID", clip.Text(string(machine), 64))
	}
	all := make([]error, len(p.names))
	var wait sync.WaitGroup
	for i, name := range p.names {
		wait.Go(func() {
			all[i] = supervise.Catch("instance "+name, func() error { return p.places[name].open(ctx, machine) })
		})
	}
	wait.Wait()
	err := stderrors.Join(all...)
	if err == nil {
		return nil
	}
	failed := slices.DeleteFunc(all, func(err error) bool { return err == nil })
	for _, kind := range []node.Kind{node.Refused, node.NotExist} { // each needs somebody's hand
		if !slices.ContainsFunc(failed, func(err error) bool { return node.KindOf(err) != kind }) {
			return node.WithKind(kind, err)
		}
	}
	return node.WithKind(node.Transient, err)
}

// Instances implements persist.Provider.
func (p *Provider) Instances() []string { return slices.Clone(p.names) }

// InstanceStatus implements persist.Provider.
func (p *Provider) InstanceStatus(instance string) persist.Status {
	s := p.places[instance]
	if s == nil {
		return persist.Status{}
	}
	return s.status()
}

func (p *Provider) instance(name string) (*standing, error) {
	s := p.places[name]
	if s == nil {
		return nil, node.Errorf(node.Invalid, "cannot use instance %q: there is none of that name, there are %q", clip.Text(name, 64), p.names)
	}
	return s, nil
}

// change calls do with an instance, and measures how long it takes when it succeeds. Errors of the kinds in spare don't take the instance down.
func (p *Provider) change(ctx context.Context, instance string, do func(place Place, machine persist.MachineID) error, spare ...node.Kind) error {
	s, err := p.instance(instance)
	if err != nil {
		return err
	}
	return s.use(ctx, func(machine persist.MachineID) error {
		began := p.now()
		if err := do(s.place, machine); err != nil {
			return err
		}
		s.latency.Observe(p.now().Sub(began))
		return nil
	}, spare...)
}

// PutObject implements persist.Provider.
func (p *Provider) PutObject(ctx context.Context, instance string, o persist.Object) (persist.Key, error) {
	if err := o.Check(); err != nil {
		return "", err
	}
	key := persist.KeyOf(o.Name)
	err := p.change(ctx, instance, func(place Place, machine persist.MachineID) error {
		framed, err := persist.Frame(machine, o)
		if err != nil {
			return err
		}
		return place.Put(ctx, o.Kind, key, framed)
	})
	return key, err
}

// DeleteObject implements persist.Provider.
func (p *Provider) DeleteObject(ctx context.Context, instance string, kind persist.Kind, key persist.Key) error {
	if err := check(kind, key); err != nil {
		return err
	}
	// Whoever may only add objects is no reason to add none.
	return p.change(ctx, instance, func(place Place, _ persist.MachineID) error { return place.Delete(ctx, kind, key) }, node.Refused)
}

// GetObject implements persist.Provider.
func (p *Provider) GetObject(ctx context.Context, instance string, kind persist.Kind, key persist.Key) (o persist.Object, err error) {
	if err := check(kind, key); err != nil {
		return persist.Object{}, err
	}
	s, err := p.instance(instance)
	if err != nil {
		return persist.Object{}, err
	}
	err = s.use(ctx, func(machine persist.MachineID) error {
		framed, err := s.place.Get(ctx, kind, key)
		if err != nil {
			return err
		}
		o, err = persist.Unframe(machine, kind, key, framed)
		return err
	})
	return o, err
}

// Keys implements persist.Provider.
func (p *Provider) Keys(ctx context.Context, instance string, kind persist.Kind) (keys []persist.Key, err error) {
	if err := kind.Check(); err != nil {
		return nil, err
	}
	s, err := p.instance(instance)
	if err != nil {
		return nil, err
	}
	err = s.use(ctx, func(persist.MachineID) error {
		keys, err = s.place.Keys(ctx, kind)
		return err
	})
	slices.Sort(keys)
	keys = slices.Compact(keys)
	return keys[:min(len(keys), persist.MostKeys)], err
}

func check(kind persist.Kind, key persist.Key) error {
	if err := kind.Check(); err != nil {
		return err
	}
	if !key.Valid() {
		return node.Errorf(node.Invalid, "cannot use key %q of %s: it must be one that PutObject or Keys gave", clip.Text(string(key), 64), kind)
	}
	return nil
}

// atOnce is how many objects GetAllObjects reads at the same time, and holds.
const atOnce = 8

// GetAllObjects implements persist.Provider.
func (p *Provider) GetAllObjects(ctx context.Context, instance string, kind persist.Kind) iter.Seq2[persist.Object, error] {
	return func(yield func(persist.Object, error) bool) {
		keys, err := p.Keys(ctx, instance, kind)
		if err != nil {
			yield(persist.Object{}, err)
			return
		}
		for some := range slices.Chunk(keys, atOnce) {
			objects, errs := make([]persist.Object, len(some)), make([]error, len(some))
			var wait sync.WaitGroup
			for i, key := range some {
				wait.Go(func() {
					errs[i] = supervise.Catch("instance "+instance, func() (err error) {
						objects[i], err = p.GetObject(ctx, instance, kind, key)
						return err
					})
				})
			}
			wait.Wait()
			for i, err := range errs {
				switch {
				case node.KindOf(err) == node.NotExist: // removed meanwhile
				case err == nil:
					if !yield(objects[i], nil) {
						return
					}
				case !yield(persist.Object{Kind: kind, Name: string(some[i])}, err) || node.KindOf(err) != node.Invalid:
					return
				}
			}
		}
	}
}
