package tasks

import (
	"context"
	"maps"
	"sync"
	"time"
)

// listedFor is the age at which a user's containers are listed again although nothing is
// heard of a change, in case that an event is missing.
const listedFor = time.Minute

// mostUsers bounds the users whose last change is remembered by itself.
const mostUsers = 4096

// Listing is All of an Index, which asks containerd again only about users of whom something
// has changed, as long as containerd's events are heard. It is safe for concurrent use.
type Listing struct {
	index Index

	mu sync.Mutex
	// live is whether all changes are heard; version counts the changes.
	live    bool
	version uint64
	// changed is the version of each user's last change, all that of the last one of
	// anybody's.
	changed map[string]uint64
	all     uint64
	listed  map[string]listed
}

// listed is the states of one user's containers, by a call that began at a version.
type listed struct {
	states  map[string]RuntimeState
	version uint64
	at      time.Time
}

// NewListing makes the listing of an index.
func NewListing(x Index) *Listing {
	return &Listing{index: x, changed: map[string]uint64{}, listed: map[string]listed{}}
}

// Live says whether all changes are heard from now on.
func (l *Listing) Live(live bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.live = live
	l.changeAll()
}

// Changed notes a change of a user's containers, of anybody's when user is empty.
func (l *Listing) Changed(user string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if user == "" || len(l.changed) >= mostUsers {
		l.changeAll()
		return
	}
	l.version++
	l.changed[user] = l.version
}

func (l *Listing) changeAll() {
	l.version++
	l.all = l.version
	clear(l.changed)
	clear(l.listed)
}

// All returns the states of all containers by their IDs.
func (l *Listing) All(ctx context.Context) (map[string]RuntimeState, error) {
	users, err := l.index.Daemon.Users(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]RuntimeState{}
	began, unknown := l.known(users, out)
	if len(unknown) == 0 {
		return out, nil
	}
	fresh, err := l.index.of(ctx, unknown)
	if err != nil {
		return nil, err
	}
	l.keep(unknown, fresh, began)
	for _, states := range fresh {
		maps.Copy(out, states)
	}
	return out, nil
}

// known adds to out what is known of users, and returns the others.
func (l *Listing) known(users []string, out map[string]RuntimeState) (version uint64, unknown []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, user := range users {
		have, listed := l.listed[user]
		if !listed || !l.live || have.version < max(l.changed[user], l.all) || time.Since(have.at) > listedFor {
			unknown = append(unknown, user)
			continue
		}
		maps.Copy(out, have.states)
	}
	return l.version, unknown
}

// keep keeps what was listed of users by a call that began at a version.
func (l *Listing) keep(users []string, fresh map[string]map[string]RuntimeState, version uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.live {
		return
	}
	for _, user := range users {
		l.listed[user] = listed{states: fresh[user], version: version, at: time.Now()}
	}
}
