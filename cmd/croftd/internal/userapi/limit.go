package userapi

import (
	"sync"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
)

// slots are the streams that users may have at a time.
type slots struct {
	most *limit.Shares
	all  sync.WaitGroup

	mu   sync.Mutex
	over bool
}

func newSlots(l limit.Limit) *slots { return &slots{most: l.Shares()} }

// take gives user a slot, and what gives it back. Busy when they have all.
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

// wait gives out no more, and waits until all are given back.
func (s *slots) wait() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.all.Wait()
}
