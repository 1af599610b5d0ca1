package userapi

import (
	"sync"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
)

// slots limit the streams that users may have at a time.
type slots struct {
	most *limit.Shares
	all  sync.WaitGroup

	mu   sync.Mutex
	over bool
}

func newSlots(l limit.Limit) *slots { return &slots{most: l.Shares()} }

// take takes a slot for user and returns the func that releases it. Busy when the user has too many.
func (s *slots) take(user string) (func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return nil, node.Errorf(node.Transient, "cannot open a stream: the node is stopping")
	}
	give, err := s.most.Take(user, 1)
	if err != nil {
		return nil, node.WithKind(node.Busy, errors.Wrap(err, "cannot open another stream"))
	}
	s.all.Add(1)
	return sync.OnceFunc(func() { give(); s.all.Done() }), nil
}

// wait refuses new slots, and waits until all are released.
func (s *slots) wait() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.all.Wait()
}
