package userapi

import (
	"encoding/binary"
	"testing"
	"testing/synctest"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/nodeapi"
)

// on is the connection with binding n.
func on(n uint32) *caller {
	c := &caller{}
	binary.BigEndian.PutUint32(c.binding[:], n)
	return c
}

// A binding is remembered for longer than requests signed on it are valid, and while the clock isn't
// trusted.
func TestBindingsAreRememberedLongEnough(t *testing.T) {
	for _, trusted := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			b := newBindings(func() (time.Time, bool) { return time.Now(), trusted })
			first := on(1)
			if err := b.claim("u", first); err != nil {
				t.Fatal(err)
			}
			if err := b.claim("u", first); err != nil {
				t.Errorf("once more on the same connection: %v", err)
			}
			time.Sleep(time.Hour)
			if err := b.claim("u", on(1)); node.KindOf(err) != node.Refused {
				t.Errorf("while it is open: %v", err)
			}
			b.release(first)
			time.Sleep(2 * nodeapi.Window)
			if err := b.claim("u", on(1)); node.KindOf(err) != node.Refused {
				t.Errorf("as long as a request may be good: %v", err)
			}
			time.Sleep(time.Second)
			if err := b.claim("u", on(2)); err != nil {
				t.Error(err)
			}
			if _, kept := b.held[first.binding]; kept == trusted {
				t.Errorf("afterwards, with a trusted clock %t, it is kept: %t", trusted, kept)
			}
		})
	}
}

// A user's oldest bindings are displaced first, and the total is bounded even if the clock is never
// trusted.
func TestBindingsAreBounded(t *testing.T) {
	was := bindingsOfUser
	t.Cleanup(func() { bindingsOfUser = was })
	bindingsOfUser.Each, bindingsOfUser.Total = 64, 2048
	b := newBindings(func() (time.Time, bool) { return time.Time{}, false })
	other := on(0)
	if err := b.claim("other", other); err != nil {
		t.Fatal(err)
	}
	b.release(other)
	for n := range uint32(3 * bindingsOfUser.Total) {
		c := on(n + 1)
		if err := b.claim("u", c); err != nil {
			t.Fatal(err)
		}
		b.release(c)
	}
	if n := len(b.held); n != int(bindingsOfUser.Each)+1 {
		t.Errorf("%d are remembered", n)
	}
	if n := len(b.over); n > int(2*bindingsOfUser.Total)+1 {
		t.Errorf("%d stand in the order of their ends", n)
	}
	if err := b.claim("other", on(0)); node.KindOf(err) != node.Refused {
		t.Errorf("another user's is forgotten for it: %v", err)
	}
}
