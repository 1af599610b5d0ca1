package userapi_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/croft-edge/croft/cmd/croftd/internal/userapi"
	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/nodeapi"
	"github.com/croft-edge/croft/pkg/sign"
)

// from dials the door from another address of this machine.
func (w *world) from(address string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}, Timeout: patience}
	return d.DialContext(w.Context(), "tcp", w.door.Address())
}

// TestSilentStrangersCannotLockAnOwnerOut: silent connections from 8 addresses, twice as many as have a
// place, reopened as soon as they end, and an owner who can connect, and whose earlier streams go on.
func TestSilentStrangersCannotLockAnOwnerOut(t *testing.T) {
	const sources, each = 8, 4
	w := newWorld(t, func(c *userapi.Config) {
		c.Limits.Strangers = limit.Limit{Name: "door-strangers", Per: "source", Each: each, Total: sources * each}
	})
	turned := limit.Times()["door-strangers"]
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lines, before := make(chan string), w.dial(w.dialer())
	followed := make(chan error, 1)
	go func() {
		followed <- before.Logs(ctx, "7-1", nodeapi.LogOptions{Tail: 0, Follow: true}, func(l nodeapi.LogLine) error { lines <- l.Text; return nil })
	}()
	w.streams.lines <- node.LogLine{Text: "before"}
	<-lines
	var strangers, first sync.WaitGroup
	defer strangers.Wait()
	defer cancel()
	for i := range 2 * sources * each {
		first.Add(1)
		strangers.Go(func() {
			ready := sync.OnceFunc(first.Done)
			defer ready()
			for ctx.Err() == nil {
				c, err := w.from(fmt.Sprintf("127.0.0.%d", 2+i%sources))
				ready()
				if err != nil {
					continue
				}
				stop := context.AfterFunc(ctx, func() { _ = c.Close() })
				_, _ = io.Copy(io.Discard, c)
				stop()
				_ = c.Close()
				select {
				case <-ctx.Done():
				case <-time.After(100 * time.Millisecond):
				}
			}
		})
	}
	first.Wait()
	w.settle("no stranger has made room", func() bool { return limit.Times()["door-strangers"] > turned })
	for i := range 5 {
		c, err := w.dialer().Dial(t.Context())
		if err != nil {
			t.Fatalf("the owner doesn't come in the %d. time: %v", i+1, err)
		}
		if _, err := c.Status(t.Context(), "7-1"); err != nil {
			t.Errorf("the owner isn't answered the %d. time: %v", i+1, err)
		}
		_ = c.Close()
	}
	w.streams.lines <- node.LogLine{Text: "after"}
	if got := <-lines; got != "after" {
		t.Errorf("got %q", got)
	}
	cancel()
	<-followed
}

// A client that has shown no workload is disconnected after the greeting, however busy it is; a
// signature by any key is no workload.
func TestAStrangerStaysForTheGreetingOnly(t *testing.T) {
	w := newWorld(t, func(c *userapi.Config) { c.Limits.Greeting = 500 * time.Millisecond })
	fresh := w.dialer()
	fresh.User = must[sign.KeyPair](t)(sign.Generate())
	for name, ask := range map[string]func(c *nodeapi.Conn) error{
		"unsigned": func(c *nodeapi.Conn) error { _, err := c.Version(t.Context()); return err },
		"signed":   func(c *nodeapi.Conn) error { _, err := c.Status(t.Context(), "7-1"); return err },
	} {
		c := w.dial(fresh)
		w.settle(name+": it is kept", func() bool { return refusedBy(ask(c), node.Transient, "cannot") })
	}
	var owner *nodeapi.Conn
	w.settle("an owner isn't served", func() bool { // one whose first request comes too late, on a busy machine, is a stranger
		owner = w.dial(w.dialer())
		_, err := owner.Status(t.Context(), "7-1")
		return err == nil
	})
	for range 10 {
		<-time.After(100 * time.Millisecond)
		if _, err := owner.Status(t.Context(), "7-1"); err != nil {
			t.Fatalf("an owner: %v", err)
		}
	}
}

// A source with all of its strangers' places taken loses its oldest connection to its newest; other
// sources lose none.
func TestASourceMakesItsOwnRoom(t *testing.T) {
	w := newWorld(t, func(c *userapi.Config) {
		c.Limits.Greeting = patience
		c.Limits.Header = patience
		c.Limits.Strangers = limit.Limit{Name: "strangers", Per: "source", Each: 2, Total: 3}
	})
	open := func(address string) net.Conn {
		c := must[net.Conn](t)(w.from(address))
		t.Cleanup(func() { _ = c.Close() })
		// A client that has completed the handshake has been accepted.
		config := must[*tls.Config](t)(nodeapi.ClientConfig(w.node.ID()))
		over := tls.Client(c, config)
		if err := over.HandshakeContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		return over
	}
	ended := func(c net.Conn) {
		t.Helper()
		_ = c.SetDeadline(time.Now().Add(patience))
		if _, err := c.Read(make([]byte, 1)); err == nil || isTimeout(err) {
			t.Errorf("it is still open: %v", err)
		}
	}
	first, second := open("127.0.0.2"), open("127.0.0.2")
	other := open("127.0.0.3")
	third := open("127.0.0.2")
	ended(first)
	open("127.0.0.4")
	ended(second)
	for _, c := range []net.Conn{third, other} {
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		if _, err := c.Read(make([]byte, 1)); !isTimeout(err) {
			t.Errorf("another one is ended: %v", err)
		}
	}
}

func TestAnOwnerHasSoManyConnectionsOnly(t *testing.T) {
	for name, change := range map[string]func(*userapi.Limits){
		"a user has at most 2":   func(l *userapi.Limits) { l.Owners.Each = 2 },
		"a source has at most 2": func(l *userapi.Limits) { l.OwnerSources.Each = 2 },
	} {
		w := newWorld(t, func(c *userapi.Config) {
			c.Limits.Owners = limit.Limit{Name: "owners", Per: "user", Total: 8}
			c.Limits.OwnerSources = limit.Limit{Name: "owner-sources", Per: "source"}
			change(&c.Limits)
		})
		ask := func(c *nodeapi.Conn) error { _, err := c.Status(t.Context(), "7-1"); return err }
		first, second := w.dial(w.dialer()), w.dial(w.dialer())
		for _, c := range []*nodeapi.Conn{first, second, first} {
			if err := ask(c); err != nil {
				t.Fatal(err)
			}
		}
		if err := ask(w.dial(w.dialer())); !refusedBy(err, node.Busy, name) {
			t.Errorf("a third: %v", err)
		}
		_ = first.Close()
		w.settle("no room after one has gone", func() bool { return ask(w.dial(w.dialer())) == nil })
	}
}
