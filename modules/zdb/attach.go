package zdb

import (
	"context"
	"os"

	"github.com/croft-edge/croft/modules/zdb/handover"
	"github.com/croft-edge/croft/pkg/node"
)

// attach takes a container in hand, or makes right what is.
func (m *Module) attach(ctx context.Context, spec node.ZDBServerSpec) (node.ZDBServer, error) {
	s, err := m.hold(ctx, spec.Container)
	if err != nil {
		return node.ZDBServer{}, err
	}
	defer m.release(s)
	conn, err := meet(ctx, spec)
	if err != nil {
		return node.ZDBServer{}, err
	}
	theirs := conn.Listeners()
	defer closeAll(theirs)
	_ = conn.Close()
	if err := m.take(ctx, s, spec, theirs); err != nil {
		return node.ZDBServer{}, err
	}
	m.mu.Lock()
	m.watch(s)
	m.mu.Unlock()
	conn, err = m.pair(ctx, s)
	if err != nil {
		return node.ZDBServer{}, err
	}
	_ = conn.Close()
	return m.look(ctx, s)
}

// meet asks whether the zdb answers on both of its sockets, and checks its mode.
func meet(ctx context.Context, spec node.ZDBServerSpec) (*handover.Conn, error) {
	have, err := mode(ctx, spec)
	switch {
	case err != nil:
		return nil, err
	case have != spec.Mode:
		return nil, node.Errorf(node.Exist, "it is of mode %s, must be %s", have, spec.Mode)
	}
	return greet(ctx, spec.Data)
}

// take makes the record what the spec says. One that is new gets a port.
func (m *Module) take(ctx context.Context, s *server, spec node.ZDBServerSpec, theirs []*os.File) error {
	r, _, known := m.state(s)
	if known && r.spec() == spec {
		return nil
	}
	if other := m.onVolume(spec); other != "" {
		return node.Errorf(node.Invalid, "Data is %s, must be another one than that of zdb %s", spec.Data, other)
	}
	next := record{Container: spec.Container, Mode: spec.Mode, Data: spec.Data, Port: r.Port}
	var l *listener
	if !known {
		var err error
		if l, err = m.choose(ctx, theirs); err != nil {
			return err
		}
		next.Port = l.port
	}
	if err := m.save(next); err != nil {
		if l != nil {
			l.end()
		}
		return err
	}
	m.mu.Lock()
	w := s.watcher
	s.record, s.known, s.damaged, s.watcher = next, true, "", nil
	if l != nil {
		s.listener = l
	}
	m.mu.Unlock()
	w.end() // it is at the old place
	return nil
}

// onVolume is the other container that has the same volume, empty for none.
func (m *Module) onVolume(spec node.ZDBServerSpec) string {
	for _, s := range m.known() {
		if r, _, _ := m.state(s); r.Data == spec.Data && r.Container != spec.Container {
			return r.Container
		}
	}
	return ""
}

// detach lets go of a container and gives its port back.
func (m *Module) detach(ctx context.Context, id string) error {
	s, err := m.hold(ctx, id)
	if err != nil {
		return err
	}
	defer m.release(s)
	m.mu.Lock()
	there := s.known || s.damaged != ""
	w := s.watcher
	s.watcher = nil
	m.mu.Unlock()
	if !there {
		return node.Errorf(node.NotExist, "it isn't in hand")
	}
	w.end()
	m.shut(ctx, s)
	err = m.folder.Remove(id+recordSuffix, id+damagedSuffix)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.watch(s)
		return err
	}
	s.record, s.known, s.damaged, s.fault, s.listener, s.namespaces = record{}, false, "", "", nil, 0
	return nil
}

// shut ends the listener of a container, also where only its zdb has it.
func (m *Module) shut(ctx context.Context, s *server) {
	r, l, known := m.state(s)
	if !known {
		return
	}
	if l == nil {
		l = foundAt(ctx, r)
	}
	if l != nil {
		l.end()
	}
}

// foundAt is the listener that a zdb has of a container whose port isn't listened
// on here; nil for none.
func foundAt(ctx context.Context, r record) *listener {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	conn, err := greet(ctx, r.Data)
	if err != nil {
		return nil
	}
	defer conn.Close()
	theirs := conn.Listeners()
	defer closeAll(theirs)
	for _, f := range theirs {
		if at, here := boundHere(f); !here || at.Port() != r.Port {
			continue
		}
		if l, err := adopt(f); err == nil {
			return l
		}
	}
	return nil
}
