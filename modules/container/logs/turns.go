package logs

import (
	"sync"

	"github.com/croft-edge/croft/pkg/limit"
)

// turns are given to users in turn, and to who asks for the same user in the
// order of asking. No more are out at a time than the limit says.
type turns struct {
	limit limit.Limit

	mu    sync.Mutex
	users map[string]*asking
	// ring are the users whose turn comes, in order.
	ring []*asking
	out  int64
}

// asking is a user who waits for turns or has some.
type asking struct {
	name    string
	waiting []*turn
	out     int64
	inRing  bool
}

// turn is one that was asked for.
type turn struct {
	of   *turns
	user *asking
	// given is closed when it has come.
	given chan struct{}
	over  bool
}

func newTurns(l limit.Limit) *turns { return &turns{limit: l, users: map[string]*asking{}} }

// ask asks for a turn, which must be ended, whether it was given or not.
func (t *turns) ask(user string) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.users[user]
	if u == nil {
		u = &asking{name: user}
		t.users[user] = u
	}
	out := &turn{of: t, user: u, given: make(chan struct{})}
	u.waiting = append(u.waiting, out)
	t.place(u)
	t.give()
	return out
}

// end gives a turn back. Ends after the first do nothing.
func (t *turn) end() {
	all := t.of
	all.mu.Lock()
	defer all.mu.Unlock()
	if t.over {
		return
	}
	t.over = true
	select {
	case <-t.given:
		t.user.out--
		all.out--
	default:
		for i, w := range t.user.waiting {
			if w == t {
				t.user.waiting = append(t.user.waiting[:i], t.user.waiting[i+1:]...)
				break
			}
		}
	}
	all.place(t.user)
	all.give()
}

// give gives what may be given.
func (t *turns) give() {
	for len(t.ring) > 0 && t.out < t.limit.Total {
		u := t.ring[0]
		t.ring, u.inRing = t.ring[1:], false
		if len(u.waiting) > 0 {
			next := u.waiting[0]
			u.waiting = u.waiting[1:]
			u.out++
			t.out++
			close(next.given)
		}
		t.place(u)
	}
}

// place puts a user at the ring's end whose turn may come, and forgets one who
// has nothing.
func (t *turns) place(u *asking) {
	if !u.inRing && len(u.waiting) > 0 && u.out < t.limit.Each {
		u.inRing = true
		t.ring = append(t.ring, u)
	}
	if len(u.waiting) == 0 && u.out == 0 && !u.inRing {
		delete(t.users, u.name)
	}
}
