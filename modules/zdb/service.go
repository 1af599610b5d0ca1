package zdb

import (
	"context"
	"time"

	"github.com/croft-edge/croft/modules/zdb/admin"
	"github.com/croft-edge/croft/modules/zdb/check"
	"github.com/croft-edge/croft/pkg/node"
)

// changeTime bounds a call.
const changeTime = 25 * time.Second

// service is the module as node.ZDBNamespaces.
type service struct{ m *Module }

// call runs one call of the contract. what describes the call in its error.
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
	if err := check.Server(spec); err != nil {
		return out, err
	}
	err = s.call("attach zdb "+spec.Container, func(ctx context.Context) (err error) {
		out, err = s.m.attaching.attach(ctx, spec)
		return err
	})
	return out, err
}

// Detach implements node.ZDBNamespaces.
func (s service) Detach(container string) error {
	if err := check.ID("zdb container", container); err != nil {
		return err
	}
	return s.call("detach zdb "+container, func(ctx context.Context) error { return s.m.attaching.detach(ctx, container) })
}

// Servers implements node.ZDBNamespaces.
func (s service) Servers() (out []node.ZDBServer, err error) {
	err = s.call("list zdbs", func(ctx context.Context) (err error) {
		out, err = s.m.observer.all(ctx)
		return err
	})
	return out, err
}

// Create implements node.ZDBNamespaces.
func (s service) Create(spec node.ZDBNamespaceSpec) (out node.ZDBNamespace, err error) {
	if err := check.Namespace(spec); err != nil {
		return out, err
	}
	err = s.change("make", spec.Container, spec.Name, func(a admin.Client, at node.ZDBServerSpec) (err error) {
		out, err = a.Create(at, spec)
		return err
	})
	s.note(err, spec.Container, spec.Name, true)
	return out, err
}

// Delete implements node.ZDBNamespaces.
func (s service) Delete(container, name string) error {
	if err := check.Names(container, name); err != nil {
		return err
	}
	err := s.change("remove", container, name, func(a admin.Client, at node.ZDBServerSpec) error { return a.Remove(at, name) })
	s.note(err, container, name, false)
	return err
}

// note keeps whether a namespace is there after a change of it.
func (s service) note(err error, container, name string, there bool) {
	if one := s.m.servers.find(container); one != nil && err == nil {
		s.m.servers.setName(one, name, there)
	}
}

// Inspect implements node.ZDBNamespaces.
func (s service) Inspect(container, name string) (out node.ZDBNamespace, err error) {
	if err := check.Names(container, name); err != nil {
		return out, err
	}
	err = s.call("look at namespace "+name+" of zdb "+container, func(ctx context.Context) error {
		return s.inside(ctx, container, func(a admin.Client, at node.ZDBServerSpec) (err error) {
			out, err = a.Info(at, name)
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
		for _, one := range s.m.servers.attached() {
			containers = append(containers, one.id)
		}
	} else if err := check.ID("zdb container", container); err != nil {
		return nil, err
	}
	out := []node.ZDBNamespace{}
	for _, id := range containers {
		err := s.call("list the namespaces of zdb "+id, func(ctx context.Context) error {
			return s.inside(ctx, id, func(a admin.Client, at node.ZDBServerSpec) error {
				some, err := a.List(at)
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
func (s service) change(verb, container, name string, do func(a admin.Client, at node.ZDBServerSpec) error) error {
	return s.call(verb+" namespace "+name+" of zdb "+container, func(ctx context.Context) error {
		one, err := s.m.servers.hold(ctx, container)
		if err != nil {
			return err
		}
		defer s.m.servers.release(one)
		return s.inside(ctx, container, do)
	})
}

// inside speaks to the zdb of an attached container.
func (s service) inside(ctx context.Context, container string, do func(a admin.Client, at node.ZDBServerSpec) error) error {
	r, err := s.m.servers.recordOf(container)
	if err != nil {
		return err
	}
	return admin.Ask(ctx, r.Data, func(a admin.Client) error { return do(a, r.spec()) })
}
