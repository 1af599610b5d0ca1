// Package vouched keeps what containerd has listed of its users from one look to the next, as long as containerd's events vouch for it.
// It asks containerd nothing.
package vouched

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/croft-edge/croft/pkg/backoff"
)

// verifyEvery is the age at which a list isn't kept any longer although nothing has changed, in case that an event of containerd's is
// missing for a reason that nobody has thought of.
const verifyEvery = 10 * time.Minute

// Lists are lists of things, one a user. The zero Lists, and nil, keep nothing; they are safe for concurrent use.
type Lists[T any] struct {
	mu sync.Mutex
	// users are nil while not each change is heard; epoch counts the changes.
	users map[string]list[T]
	epoch uint64
}

// list is one user's, and when it isn't kept any longer.
type list[T any] struct {
	of    T
	until time.Time
}

// do calls change, after which what is being listed isn't kept.
func (l *Lists[T]) do(change func()) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epoch++
	change()
}

// Live notes that from now on Forget is called after each change.
func (l *Lists[T]) Live() { l.do(func() { l.users = map[string]list[T]{} }) }

// Lost notes that changes may not have been heard.
func (l *Lists[T]) Lost() { l.do(func() { l.users = nil }) }

// Forget notes that a thing of a user was made, changed or deleted.
func (l *Lists[T]) Forget(user string) { l.do(func() { delete(l.users, user) }) }

// Only forgets all users but these.
func (l *Lists[T]) Only(users []string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.users, func(user string, _ list[T]) bool { return !slices.Contains(users, user) })
}

// Kept is a user's list; it isn't kept when it has to be listed. Nobody changes it. epoch is for Keep.
func (l *Lists[T]) Kept(user string) (of T, kept bool, epoch uint64) {
	if l == nil {
		return of, false, 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	have, kept := l.users[user]
	if !kept || time.Now().After(have.until) {
		return of, false, l.epoch
	}
	return have.of, true, l.epoch
}

// Keep keeps what was listed after Kept, unless something has changed since.
func (l *Lists[T]) Keep(user string, epoch uint64, of T) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users != nil && l.epoch == epoch {
		l.users[user] = list[T]{of, time.Now().Add(backoff.Around(verifyEvery))}
	}
}
