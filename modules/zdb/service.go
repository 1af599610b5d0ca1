package zdb

import (
	"context"
	"time"

	"github.com/croft-edge/croft/pkg/node"
)

// changeTime bounds a call.
const changeTime = 25 * time.Second

// service is the module as node.ZDBNamespaces.
type service struct{ m *Module }

// call runs one call of the contract. what is what can't be done when it fails.
func (s service) call(what string, do func(ctx context.Context) error) error {
	done, err := s.m.begin()
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithTimeout(s.m.ctx, changeTime)
	defer cancel()
	if err := do(ctx); err != nil {
		return node.Errorf(node.KindOf(err), "cannot %s: %w", what, err)
	}
	return nil
}

// Attach implements node.ZDBNamespaces.
func (s service) Attach(spec node.ZDBServerSpec) (out node.ZDBServer, err error) {
	if err := checkServer(spec); err != nil {
		return out, err
	}
	err = s.call("attach zdb "+spec.Container, func(ctx context.Context) (err error) {
		out, err = s.m.attach(ctx, spec)
		return err
	})
	return out, err
}

// Detach implements node.ZDBNamespaces.
func (s service) Detach(container string) error {
	if err := checkID("zdb container", container); err != nil {
		return err
	}
	return s.call("detach zdb "+container, func(ctx context.Context) error { return s.m.detach(ctx, container) })
}

// Servers implements node.ZDBNamespaces.
func (s service) Servers() (out []node.ZDBServer, err error) {
	err = s.call("list zdbs", func(ctx context.Context) (err error) {
		out, err = s.m.lookAtAll(ctx)
		return err
	})
	return out, err
}

// Create implements node.ZDBNamespaces.
func (s service) Create(spec node.ZDBNamespaceSpec) (out node.ZDBNamespace, err error) {
	if err := checkSpec(spec); err != nil {
		return out, err
	}
	err = s.change("make", spec.Container, spec.Name, func(a admin, r record) (err error) {
		out, err = a.create(r, spec)
		return err
	})
	return out, err
}

// Delete implements node.ZDBNamespaces.
func (s service) Delete(container, name string) error {
	if err := checkNames(container, name); err != nil {
		return err
	}
	return s.change("remove", container, name, func(a admin, r record) error { return a.remove(r, name) })
}

// Inspect implements node.ZDBNamespaces.
func (s service) Inspect(container, name string) (out node.ZDBNamespace, err error) {
	if err := checkNames(container, name); err != nil {
		return out, err
	}
	err = s.call("look at namespace "+name+" of zdb "+container, func(ctx context.Context) error {
		return s.m.inside(ctx, container, func(a admin, r record) (err error) {
			out, err = a.info(r, name)
			return err
		})
	})
	return out, err
}

// List implements node.ZDBNamespaces.
func (s service) List(container string) ([]node.ZDBNamespace, error) {
	containers := []string{container}
	if container == "" {
		containers = nil
		for _, one := range s.m.known() {
			containers = append(containers, one.id)
		}
	} else if err := checkID("zdb container", container); err != nil {
		return nil, err
	}
	out := []node.ZDBNamespace{}
	for _, id := range containers {
		err := s.call("list the namespaces of zdb "+id, func(ctx context.Context) error {
			return s.m.inside(ctx, id, func(a admin, r record) error {
				some, err := a.list(r)
				out = append(out, some...)
				return err
			})
		})
		if err != nil && (container != "" || node.KindOf(err) != node.NotExist) {
			return nil, err // of all, one may have been let go meanwhile
		}
	}
	return out, nil
}

// change is a call that changes a namespace: one after the other in a container.
func (s service) change(verb, container, name string, do func(a admin, r record) error) error {
	return s.call(verb+" namespace "+name+" of zdb "+container, func(ctx context.Context) error {
		one, err := s.m.hold(ctx, container)
		if err != nil {
			return err
		}
		defer s.m.release(one)
		return s.m.inside(ctx, container, do)
	})
}

// inside speaks with the zdb of a container in hand.
func (m *Module) inside(ctx context.Context, container string, do func(a admin, r record) error) error {
	r, err := m.recordOf(container)
	if err != nil {
		return err
	}
	return ask(ctx, r.Data, func(a admin) error { return do(a, r) })
}

func checkNames(container, name string) error {
	if err := checkID("zdb container", container); err != nil {
		return err
	}
	return checkNamespace(name)
}
