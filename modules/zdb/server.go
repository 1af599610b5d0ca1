package zdb

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/croft-edge/croft/modules/zdb/port"
	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
)

// server is a zdb container that this process knows. It is attached while it has a
// record.
type server struct {
	id string
	// op is held by the one change at a time: it holds one token. pairing is held by
	// the one goroutine at a time that brings listener and zdb together.
	op, pairing chan struct{}

	// These are guarded by servers.mu.
	record record
	known  bool // whether there is a record
	// damaged is set if there was a record that can't be read, and says why.
	damaged string
	// fault is why listener and zdb aren't together, as of the last try; "" if they are.
	fault    string
	listener *port.Listener
	// names are the namespaces in the zdb's last answer, and those made since.
	names map[string]struct{}
	// limits are those of its process.
	limits  limit.Elsewhere
	watcher *watcher
	users   int // hold or wait for op
}

// servers are the known zdb containers, by ID. They are safe for concurrent use.
type servers struct {
	mu  sync.Mutex
	all map[string]*server
}

// get is the server of an ID, made when there is none. mu is held, or nobody else
// has the module.
func (k *servers) get(id string) *server {
	s := k.all[id]
	if s == nil {
		s = &server{id: id, op: make(chan struct{}, 1), pairing: make(chan struct{}, 1)}
		k.all[id] = s
	}
	return s
}

// hold takes a container for a change, which release ends.
func (k *servers) hold(ctx context.Context, id string) (*server, error) {
	k.mu.Lock()
	s := k.get(id)
	s.users++
	k.mu.Unlock()
	select {
	case s.op <- struct{}{}:
		return s, nil
	case <-ctx.Done():
		k.leave(s)
		return nil, node.Errorf(node.Busy, "cannot change zdb %s: another change of it takes its time (%w)", id, ctx.Err())
	}
}

func (k *servers) release(s *server) {
	<-s.op
	k.leave(s)
}

// leave forgets a server that has no users and no record.
func (k *servers) leave(s *server) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s.users--
	if s.users == 0 && !s.known && s.damaged == "" {
		delete(k.all, s.id)
	}
}

// find is the server of an ID, nil for none.
func (k *servers) find(id string) *server {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.all[id]
}

// attached are all servers with a record, in the order of their IDs.
func (k *servers) attached() []*server {
	return k.which(func(s *server) bool { return s.known })
}

// recorded are all servers with a record, damaged ones included, in the order of
// their IDs.
func (k *servers) recorded() []*server {
	return k.which(func(s *server) bool { return s.known || s.damaged != "" })
}

func (k *servers) which(of func(s *server) bool) []*server {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []*server
	for _, s := range k.all {
		if of(s) {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b *server) int { return strings.Compare(a.id, b.id) })
	return out
}

// state is a server's record and listener now.
func (k *servers) state(s *server) (r record, l *port.Listener, known bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return s.record, s.listener, s.known
}

// recordOf is the record of an attached container. NotExist when it isn't attached.
func (k *servers) recordOf(id string) (record, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.all[id]
	switch {
	case s != nil && s.known:
		return s.record, nil
	case s != nil && s.damaged != "":
		return record{}, node.Errorf(node.Transient, "it must be attached again: %s", s.damaged)
	}
	return record{}, node.Errorf(node.NotExist, "it isn't attached")
}

// ports are those that containers keep.
func (k *servers) ports() []uint16 {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []uint16
	for _, s := range k.all {
		if s.known {
			out = append(out, s.record.Port)
		}
	}
	return out
}

// onVolume is the other container that has the same volume, empty for none.
func (k *servers) onVolume(spec node.ZDBServerSpec) string {
	for _, s := range k.attached() {
		if r, _, _ := k.state(s); r.Data == spec.Data && r.Container != spec.Container {
			return r.Container
		}
	}
	return ""
}

// setRecord makes a server an attached one; l is its listener, nil for the present
// one. It returns the watcher of the earlier place for the caller to end.
func (k *servers) setRecord(s *server, r record, l *port.Listener) *watcher {
	k.mu.Lock()
	defer k.mu.Unlock()
	w := s.watcher
	s.record, s.known, s.damaged, s.watcher = r, true, "", nil
	if l != nil {
		s.listener = l
	}
	return w
}

// clear makes a server one that isn't attached.
func (k *servers) clear(s *server) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s.record, s.known, s.damaged, s.fault, s.listener, s.names = record{}, false, "", "", nil, nil
}

// setFault keeps why listener and zdb aren't together. It returns the earlier fault
// and the port.
func (k *servers) setFault(s *server, fault string) (before string, port uint16) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before, s.fault = s.fault, fault
	return before, s.record.Port
}

func (k *servers) setListener(s *server, l *port.Listener) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s.listener = l
}

// setNames keeps the names of a server's namespaces.
func (k *servers) setNames(s *server, names []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s.names = make(map[string]struct{}, len(names))
	for _, name := range names {
		s.names[name] = struct{}{}
	}
}

// setName keeps whether a server has a namespace of that name.
func (k *servers) setName(s *server, name string, there bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !there {
		delete(s.names, name)
		return
	}
	if s.names == nil {
		s.names = map[string]struct{}{}
	}
	s.names[name] = struct{}{}
}

// namesOf are the names of a server's namespaces, as far as they are known.
func (k *servers) namesOf(s *server) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Collect(maps.Keys(s.names))
}

// closeListeners closes this process' descriptors: zdbs go on with theirs.
func (k *servers) closeListeners() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.all {
		if s.listener != nil {
			s.listener.Close()
		}
	}
}
