package network

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// carriers is a model of the carriers that a watcher sees.
type carriers struct {
	mu      sync.Mutex
	present chan struct{}
	// looks and raises count calls. raise fails with err and connects a successor otherwise,
	// dead as soon as it is there when dying is set.
	looks   int
	raises  int
	err     error
	dying   bool
	watcher *watcher
}

const every = time.Minute

// watched starts a watcher of the first carrier. It ends with the test.
func watched(t *testing.T) *carriers {
	c := &carriers{}
	c.watcher = newWatcher(every, c.ended, c.look, c.raise)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := c.watcher.run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("it ended: %v", err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	c.connect()
	synctest.Wait()
	return c
}

func (c *carriers) ended() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.present
}

func (c *carriers) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looks++
}

func (c *carriers) raise() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.watcher.sleep()
	c.raises++
	if c.err != nil {
		return c.err
	}
	select {
	case <-c.present:
		c.present = make(chan struct{})
		c.watcher.wake()
		if c.dying {
			close(c.present)
		}
	default:
	}
	return nil
}

// connect is a caller that connects a carrier.
func (c *carriers) connect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.present = make(chan struct{})
	c.watcher.wake()
}

// kill ends the present carrier.
func (c *carriers) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.present)
}

// set sets how raise goes on, and count is how often it was called since the last count.
func (c *carriers) set(err error, dying bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err, c.dying = err, dying
}

func (c *carriers) count() int {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.raises
	c.raises = 0
	return n
}

// succeeded has carriers end, with c locked, a while after one another. Each time the networks
// must be raised at once.
func (c *carriers) succeeded(t *testing.T, end func()) {
	for range 20 {
		time.Sleep(2*every + time.Second)
		c.count()
		c.mu.Lock()
		end()
		c.mu.Unlock()
		if n := c.count(); n != 1 {
			t.Fatalf("raised %d times after the carrier's end, want once", n)
		}
	}
}

func TestWatcher(t *testing.T) {
	for name, f := range map[string]func(t *testing.T, c *carriers){
		"it looks from time to time": func(t *testing.T, c *carriers) {
			time.Sleep(90 * time.Second)
			if n := c.count(); n != 1 {
				t.Errorf("raised %d times in 90 s, want once", n)
			}
		},
		"a carrier that ends is succeeded at once": func(t *testing.T, c *carriers) {
			c.succeeded(t, func() { close(c.present) })
		},
		"a caller connects the successor first": func(t *testing.T, c *carriers) {
			c.succeeded(t, func() {
				close(c.present) // the watcher sees both at the same time, in any order
				c.present = make(chan struct{})
				c.watcher.wake()
			})
		},
		"none can be started": func(t *testing.T, c *carriers) {
			c.set(errors.New("no carrier"), false)
			c.kill()
			time.Sleep(30 * time.Minute)
			if n := c.count(); n < 3 || n > 10 {
				t.Errorf("raised %d times in 30 minutes without a carrier", n)
			}
			if c.looks != 30 {
				t.Errorf("looked %d times at the node's rules in 30 minutes", c.looks)
			}
			c.set(nil, false)
			c.connect()
			if n := c.count(); n != 1 {
				t.Errorf("raised %d times after a caller had connected one, want at once", n)
			}
			time.Sleep(every)
			if n := c.count(); n != 1 {
				t.Errorf("raised %d times in the minute after, want once", n)
			}
		},
		"another carrier ends after failures": func(t *testing.T, c *carriers) {
			c.kill()
			c.count()
			c.set(errors.New("it hangs"), false)
			time.Sleep(31 * time.Minute)
			c.count()
			c.set(nil, false)
			c.kill()
			if n := c.count(); n != 1 {
				t.Errorf("raised %d times after the end of the one that hung, want once", n)
			}
		},
		"nothing is to be raised when it ends": func(t *testing.T, c *carriers) {
			// A node without networks connects no successor.
			c.watcher.raise = func() error { c.mu.Lock(); defer c.mu.Unlock(); c.raises++; return nil }
			c.kill()
			time.Sleep(10*every + time.Second)
			if n := c.count(); n > 11 {
				t.Errorf("raised %d times in 10 minutes", n)
			}
		},
		"each successor ends at once": func(t *testing.T, c *carriers) {
			c.set(nil, true)
			c.kill()
			time.Sleep(10*every + time.Second)
			if n := c.count(); n < 10 || n > 10+restarts+1 {
				t.Errorf("raised %d times in 10 minutes", n)
			}
			c.set(nil, false)
			time.Sleep(4 * every)
			c.count()
			c.kill()
			if n := c.count(); n != 1 {
				t.Errorf("raised %d times after the end of one that lived, want once", n)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, watched(t)) })
		})
	}
}
