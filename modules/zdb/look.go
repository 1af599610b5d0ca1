package zdb

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/croft-edge/croft/modules/zdb/admin"
	"github.com/croft-edge/croft/modules/zdb/port"
	"github.com/croft-edge/croft/pkg/node"
)

// lookTime is how long a zdb may take to answer when it is looked at.
const lookTime = 3 * time.Second

// observer looks at containers and their zdbs.
type observer struct {
	cfg     Config
	servers *servers
}

// look asks a container's zdb for its state. Drift names the differences from the
// wanted state.
func (o *observer) look(ctx context.Context, s *server) (node.ZDBServer, error) {
	v4, v6, err := o.cfg.addresses(ctx)
	if err != nil {
		return node.ZDBServer{}, err
	}
	o.servers.mu.Lock()
	r, l, fault := s.record, s.listener, s.fault
	out := node.ZDBServer{Container: s.id, Mode: r.Mode, Data: r.Data, Port: r.Port, Namespaces: uint64(len(s.names)), Drift: s.damaged}
	known := s.known
	o.servers.mu.Unlock()
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
		namesErr = admin.Ask(ctx, r.Data, func(a admin.Client) (err error) {
			if names, err = a.Names(); err == nil {
				s.limits.Seen(a.Reached())
			}
			return err
		})
	})
	asking.Go(func() { listenErr = together(ctx, r, l, fault) })
	asking.Wait()
	if namesErr == nil {
		out.Namespaces = uint64(len(names))
		o.servers.setNames(s, names)
	}
	out.Drift = drift(namesErr, listenErr)
	return out, nil
}

// together says why a listener and its zdb aren't together, nil when they are.
func together(ctx context.Context, r record, l *port.Listener, fault string) error {
	if l == nil || !l.Listens() {
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
	if !l.Among(theirs) {
		return node.Errorf(node.Transient, "it doesn't have the listener of its port %d", r.Port)
	}
	return nil
}

// drift joins the texts of errors in one line, without repetitions.
func drift(errs ...error) string {
	var out []string
	for _, err := range errs {
		if err != nil && !slices.Contains(out, err.Error()) {
			out = append(out, err.Error())
		}
	}
	return strings.Join(out, "; ")
}

// all looks at all containers at once, and returns them in the order of their IDs.
func (o *observer) all(ctx context.Context) ([]node.ZDBServer, error) {
	all := o.servers.recorded()
	out := make([]node.ZDBServer, len(all))
	errs := make([]error, len(all))
	var looking sync.WaitGroup
	for i, s := range all {
		looking.Go(func() { out[i], errs[i] = o.look(ctx, s) })
	}
	looking.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
