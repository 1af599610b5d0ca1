package tasks

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/croft-edge/croft/pkg/backoff"
)

// verifyEvery is the age at which a user's containers are listed although nothing has changed, in case that an event of containerd's is
// missing for a reason that nobody has thought of.
const verifyEvery = 10 * time.Minute

// Labels keeps the labels of users' containers from one look to the next, as long as containerd's events vouch for them: containerd lists
// a container only with its whole specification, some 10 KB. The zero Labels, and nil, keep nothing; it is safe for concurrent use.
type Labels struct {
	mu sync.Mutex
	// users are nil while not each change of a container is heard; epoch counts the changes.
	users map[string]labelled
	epoch uint64
}

// labelled are the labels of one user's containers by their IDs, at least one, and when they are listed again all the same.
type labelled struct {
	of    map[string]map[string]string
	until time.Time
}

// do calls change, after which what is being listed isn't kept.
func (l *Labels) do(change func()) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epoch++
	change()
}

// Live notes that from now on Forget is called after each change of a container.
func (l *Labels) Live() { l.do(func() { l.users = map[string]labelled{} }) }

// Lost notes that changes may not have been heard.
func (l *Labels) Lost() { l.do(func() { l.users = nil }) }

// Forget notes that a container of a user was made, changed or deleted.
func (l *Labels) Forget(user string) { l.do(func() { delete(l.users, user) }) }

// only forgets all users but these.
func (l *Labels) only(users []string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.users, func(user string, _ labelled) bool { return !slices.Contains(users, user) })
}

// kept are the labels of a user's containers, nil when they have to be listed. They are true if each of these has a task, and no other
// container has one. Nobody changes them. epoch is for keep.
func (l *Labels) kept(user string) (of map[string]map[string]string, epoch uint64) {
	if l == nil {
		return nil, 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	have := l.users[user]
	if time.Now().After(have.until) {
		have.of = nil
	}
	return have.of, l.epoch
}

// keep keeps what was listed after kept, unless something has changed since. A listing with a container that has no task, or with none at
// all, isn't kept: it would never be used.
func (l *Labels) keep(user string, epoch uint64, of map[string]map[string]string, hasTask func(id string) bool) {
	for id := range of {
		if !hasTask(id) {
			return
		}
	}
	if l == nil || len(of) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users != nil && l.epoch == epoch {
		l.users[user] = labelled{of, time.Now().Add(backoff.Around(verifyEvery))}
	}
}
