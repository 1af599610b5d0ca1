package zdb

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/croft-edge/croft/pkg/node"
)

// look asks a container how it is. What isn't as it should be is its Drift.
func (m *Module) look(ctx context.Context, s *server) (node.ZDBServer, error) {
	v4, v6, err := m.cfg.addresses(ctx)
	if err != nil {
		return node.ZDBServer{}, err
	}
	m.mu.Lock()
	r, l, fault := s.record, s.listener, s.fault
	out := node.ZDBServer{Container: s.id, Mode: r.Mode, Data: r.Data, Port: r.Port, Namespaces: s.namespaces, Drift: s.damaged}
	known := s.known
	m.mu.Unlock()
	if v4.IsValid() {
		out.IPv4 = v4.String()
	}
	if v6.IsValid() {
		out.IPv6 = v6.String()
	}
	if !known {
		return out, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	var names []string
	var namesErr, listenErr error
	var asking sync.WaitGroup
	asking.Go(func() {
		namesErr = ask(ctx, r.Data, func(a admin) (err error) {
			if names, err = a.names(); err == nil {
				s.limits.Seen(a.reached())
			}
			return err
		})
	})
	asking.Go(func() { listenErr = m.together(ctx, r, l, fault) })
	asking.Wait()
	if namesErr == nil {
		out.Namespaces = uint64(len(names))
		m.mu.Lock()
		s.namespaces = out.Namespaces
		m.mu.Unlock()
	}
	out.Drift = drift(namesErr, listenErr)
	return out, nil
}

// together says why a listener and its zdb aren't together, nil when they are.
func (m *Module) together(ctx context.Context, r record, l *listener, fault string) error {
	if l == nil || !l.listens() {
		if fault == "" {
			fault = "nobody listens on its port"
		}
		return node.Errorf(node.Transient, "%s", fault)
	}
	conn, err := greet(ctx, r.Data)
	if err != nil {
		return err
	}
	defer conn.Close()
	theirs := conn.Listeners()
	defer closeAll(theirs)
	if !has(theirs, l) {
		return node.Errorf(node.Transient, "it doesn't have the listener of its port %d", r.Port)
	}
	return nil
}

// drift is what differs in one line, nothing twice.
func drift(errs ...error) string {
	var out []string
	for _, err := range errs {
		if err != nil && !slices.Contains(out, err.Error()) {
			out = append(out, err.Error())
		}
	}
	return strings.Join(out, "; ")
}

// lookAtAll asks all containers at once, in the order of their IDs.
func (m *Module) lookAtAll(ctx context.Context) ([]node.ZDBServer, error) {
	m.mu.Lock()
	var all []*server
	for _, s := range m.servers {
		if s.known || s.damaged != "" {
			all = append(all, s)
		}
	}
	m.mu.Unlock()
	slices.SortFunc(all, func(a, b *server) int { return strings.Compare(a.id, b.id) })
	out := make([]node.ZDBServer, len(all))
	errs := make([]error, len(all))
	var looking sync.WaitGroup
	for i, s := range all {
		looking.Go(func() { out[i], errs[i] = m.look(ctx, s) })
	}
	looking.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
