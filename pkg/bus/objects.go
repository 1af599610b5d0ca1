package bus

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/pkg/node"
)

// objects are the objects that a server serves. None is added while it runs.
type objects struct {
	module string

	mu      sync.Mutex
	served  map[zbus.ObjectID]*object
	running bool
}

func newObjects(module string) *objects {
	return &objects{module: module, served: map[zbus.ObjectID]*object{}}
}

func (s *objects) register(id zbus.ObjectID, o *object) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running {
		return node.Errorf(node.Refused, "cannot register %s: the server runs already", id)
	}
	if id.String() == statusObject().String() {
		return node.Errorf(node.Refused, "cannot register %s: the name is taken by the server's status", id)
	}
	if _, ok := s.served[id]; ok {
		return node.Errorf(node.Exist, "cannot register %s: it is registered already", id)
	}
	s.served[id] = o
	return nil
}

// begin returns the queues of all objects and closes the list until end.
func (s *objects) begin() (queues []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running {
		return nil, node.Errorf(node.Exist, "cannot run the server of %s: it runs already", s.module)
	}
	if len(s.served) == 0 {
		return nil, node.Errorf(node.Invalid, "cannot run the server of %s: no object is registered", s.module)
	}
	s.running = true
	for id := range s.served {
		queues = append(queues, queueName(s.module, id))
	}
	slices.Sort(queues)
	return queues, nil
}

func (s *objects) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = false
}

// find returns the object of that name and version.
func (s *objects) find(id zbus.ObjectID) (*object, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.served[id]
	return o, ok
}

// all is a copy of the list.
func (s *objects) all() map[zbus.ObjectID]*object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.served)
}

// ids are the names of all objects, sorted; nil when there are none.
func (s *objects) ids() []zbus.ObjectID {
	var ids []zbus.ObjectID
	for id := range s.all() {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b zbus.ObjectID) int { return strings.Compare(a.String(), b.String()) })
	return ids
}
