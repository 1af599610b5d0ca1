package zdb

import (
	"context"
	"os"

	"github.com/croft-edge/croft/modules/zdb/admin"
	"github.com/croft-edge/croft/modules/zdb/handover"
	"github.com/croft-edge/croft/modules/zdb/port"
	"github.com/croft-edge/croft/pkg/node"
)

// attaching attaches containers and detaches them.
type attaching struct {
	servers    *servers
	records    records
	pairing    *pairing
	supervisor *supervisor
	observer   *observer
}

// attach attaches a container, or changes its record to the spec.
func (t *attaching) attach(ctx context.Context, spec node.ZDBServerSpec) (node.ZDBServer, error) {
	s, err := t.servers.hold(ctx, spec.Container)
	if err != nil {
		return node.ZDBServer{}, err
	}
	defer t.servers.release(s)
	conn, err := meet(ctx, spec)
	if err != nil {
		return node.ZDBServer{}, err
	}
	theirs := conn.Listeners()
	defer closeAll(theirs)
	_ = conn.Close()
	if err := t.take(ctx, s, spec, theirs); err != nil {
		return node.ZDBServer{}, err
	}
	t.supervisor.watch(s)
	conn, err = t.pairing.pair(ctx, s)
	if err != nil {
		return node.ZDBServer{}, err
	}
	_ = conn.Close()
	return t.observer.look(ctx, s)
}

// meet checks that the zdb answers on both of its sockets, and its mode.
func meet(ctx context.Context, spec node.ZDBServerSpec) (*handover.Conn, error) {
	have, err := admin.Mode(ctx, spec)
	switch {
	case err != nil:
		return nil, err
	case have != spec.Mode:
		return nil, node.Errorf(node.Exist, "it is of mode %s, must be %s", have, spec.Mode)
	}
	return greet(ctx, spec.Data)
}

// take writes the record of a spec. A new container gets a port.
func (t *attaching) take(ctx context.Context, s *server, spec node.ZDBServerSpec, theirs []*os.File) error {
	r, _, known := t.servers.state(s)
	if known && r.spec() == spec {
		return nil
	}
	if other := t.servers.onVolume(spec); other != "" {
		return node.Errorf(node.Invalid, "Data is %s, must be another one than that of zdb %s", spec.Data, other)
	}
	next := record{Container: spec.Container, Mode: spec.Mode, Data: spec.Data, Port: r.Port}
	var l *port.Listener
	if !known {
		var err error
		if l, err = t.pairing.ports.Choose(ctx, theirs, t.servers.ports); err != nil {
			return err
		}
		next.Port = l.Port
	}
	if err := t.records.save(next); err != nil {
		if l != nil {
			l.End()
		}
		return err
	}
	t.servers.setRecord(s, next, l).end() // the watcher watches the old place
	return nil
}

// detach forgets a container and gives its port back.
func (t *attaching) detach(ctx context.Context, id string) error {
	s, err := t.servers.hold(ctx, id)
	if err != nil {
		return err
	}
	defer t.servers.release(s)
	if !t.supervisor.unwatch(s) {
		return node.Errorf(node.NotExist, "it isn't attached")
	}
	t.pairing.shut(ctx, s)
	if err := t.records.remove(id); err != nil {
		t.supervisor.watch(s)
		return err
	}
	t.servers.clear(s)
	return nil
}
