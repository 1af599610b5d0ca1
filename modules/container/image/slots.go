package image

import (
	"context"
	"sync"
	"sync/atomic"
)

// slots lets a number of pulls run at once, and fewer of one user.
type slots struct {
	all    chan struct{}
	ofUser int
	mu     *sync.Mutex
	users  map[string]*userSlots
	// waiting are those who wait for a slot that others have.
	waiting *atomic.Int64
}

type userSlots struct {
	free chan struct{}
	held int
}

func newSlots(all, ofUser int) slots {
	return slots{all: make(chan struct{}, all), ofUser: ofUser, mu: &sync.Mutex{}, users: map[string]*userSlots{}, waiting: &atomic.Int64{}}
}

// take waits for a slot, and returns what gives it back.
func (s slots) take(ctx context.Context, user string) (func(), error) {
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	u := s.of(user)
	select {
	case u.free <- struct{}{}:
	case <-ctx.Done():
		s.forget(user, u)
		return nil, ctx.Err()
	}
	select {
	case s.all <- struct{}{}:
	case <-ctx.Done():
		<-u.free
		s.forget(user, u)
		return nil, ctx.Err()
	}
	return func() {
		<-s.all
		<-u.free
		s.forget(user, u)
	}, nil
}

func (s slots) of(user string) *userSlots {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.users[user]
	if u == nil {
		u = &userSlots{free: make(chan struct{}, s.ofUser)}
		s.users[user] = u
	}
	u.held++
	return u
}

func (s slots) forget(user string, u *userSlots) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u.held--; u.held == 0 {
		delete(s.users, user)
	}
}

// keyed lets one at a time hold a key.
type keyed struct {
	mu   sync.Mutex
	held map[string]chan struct{}
}

// take waits for a key, and returns what gives it back.
func (k *keyed) take(ctx context.Context, key string) (func(), error) {
	for {
		k.mu.Lock()
		if k.held == nil {
			k.held = map[string]chan struct{}{}
		}
		busy := k.held[key]
		if busy == nil {
			mine := make(chan struct{})
			k.held[key] = mine
			k.mu.Unlock()
			return func() {
				k.mu.Lock()
				delete(k.held, key)
				k.mu.Unlock()
				close(mine)
			}, nil
		}
		k.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
