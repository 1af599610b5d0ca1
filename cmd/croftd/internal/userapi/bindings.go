package userapi

import (
	"slices"
	"sync"
	"time"

	"github.com/croft-edge/croft/cmd/croftd/internal/userapi/wire"
	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/nodeapi"
)

// binding identifies one TLS connection; the user's requests on it hold it.
type binding [wire.BindingSize]byte

// bindings remembers the connections that brought requests of users with workloads here, for longer
// than these requests are valid: the door's process names the connection, and mustn't replay the
// binding of an earlier one.
type bindings struct {
	now  func() (time.Time, bool)
	most *limit.Places

	mu   sync.Mutex
	held map[binding]*claim
	// over are the claims whose connection has ended, oldest first.
	over []*claim
}

type claim struct {
	binding binding
	by      *caller
	give    func()
	ended   time.Time
}

func newBindings(now func() (time.Time, bool)) *bindings {
	return &bindings{now: now, most: bindingsOfUser.Places(true), held: map[binding]*claim{}}
}

// claim assigns the caller's binding to it for good. It returns Refused when another caller has claimed
// it.
func (b *bindings) claim(user string, by *caller) error {
	b.forget()
	b.mu.Lock()
	c := b.held[by.binding]
	if c == nil {
		c = &claim{binding: by.binding, by: by}
		b.held[by.binding] = c
		b.mu.Unlock()
		// A user with too many bindings loses their oldest, so Take doesn't fail.
		give, err := b.most.Take(user, func() { b.drop(c) })
		if err == nil {
			b.mu.Lock()
			c.give = give
			b.mu.Unlock()
		}
		return err
	}
	defer b.mu.Unlock()
	if c.by != by {
		return node.Errorf(node.Refused, "cannot verify request: it came before, on a connection that has ended")
	}
	return nil
}

// release marks the caller's connection as ended.
func (b *bindings) release(by *caller) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.held[by.binding]; c != nil && c.by == by {
		c.ended = time.Now()
		b.over = append(b.over, c)
	}
	if int64(len(b.over)) > 2*bindingsOfUser.Total {
		// While the clock isn't trusted, over still holds the claims that were displaced.
		b.over = slices.DeleteFunc(b.over, func(c *claim) bool { return b.held[c.binding] != c })
	}
}

// forget drops the claims whose requests have expired. While the clock isn't trusted, no request
// expires.
func (b *bindings) forget() {
	if _, trusted := b.now(); !trusted {
		return
	}
	b.mu.Lock()
	var old []*claim
	for len(b.over) > 0 && time.Since(b.over[0].ended) > 2*nodeapi.Window {
		old = append(old, b.over[0])
		b.over = b.over[1:]
	}
	b.mu.Unlock()
	for _, c := range old {
		b.drop(c)
		c.give()
	}
}

func (b *bindings) drop(c *claim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held[c.binding] == c {
		delete(b.held, c.binding)
	}
}
