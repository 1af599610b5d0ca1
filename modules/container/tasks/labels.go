package tasks

import (
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
	// live is whether each change of a container is heard; epoch counts the changes.
	live  bool
	epoch uint64
	users map[string]labelled
}

// labelled are the labels of one user's containers by their IDs, and when they are listed again all the same.
type labelled struct {
	of    map[string]map[string]string
	until time.Time
}

// Live notes that from now on Forget is called after each change of a container.
func (l *Labels) Live() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.live = true
	l.epoch++
	l.users = map[string]labelled{}
}

// Lost notes that changes may not have been heard.
func (l *Labels) Lost() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.live = false
	l.epoch++
	l.users = nil
}

// Forget notes that a container of a user was made, changed or deleted.
func (l *Labels) Forget(user string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epoch++
	delete(l.users, user)
}

// now is the epoch, in which a listing may begin.
func (l *Labels) now() uint64 {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epoch
}

// keep keeps what was listed from epoch on, unless something has changed since.
func (l *Labels) keep(user string, epoch uint64, of map[string]map[string]string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.live && l.epoch == epoch {
		l.users[user] = labelled{of, time.Now().Add(backoff.Around(verifyEvery))}
	}
}

// kept are the labels of a user's containers, if these are all known, and each has a task. Nobody changes them.
func (l *Labels) kept(user string, withTasks map[string]bool) (of map[string]map[string]string, ok bool) {
	if l == nil {
		return nil, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	have, known := l.users[user]
	if !known || time.Now().After(have.until) {
		return nil, false
	}
	for id := range have.of {
		if !withTasks[id] {
			return nil, false
		}
	}
	return have.of, true
}
