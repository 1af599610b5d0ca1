package zdb_test

import (
	"testing"
	"time"

	"github.com/croft-edge/croft/zdb"
)

func TestWaitAnswersAllWaiters(t *testing.T) {
	b := open(t, zdb.Config{})
	by := b.client()
	by.all("NSNEW other")
	waiting := map[string]*client{}
	for _, command := range []string{"SET", "get", "SETX", "PING", "DBSIZE", "*", "WAIT"} {
		c := b.client()
		waiting[command] = c
		c.want("", "WAIT "+command+" 100000")
	}
	elsewhere := b.client()
	elsewhere.all("SELECT other")
	elsewhere.want("", "WAIT * 100000")
	heard := func(want map[string]string) {
		t.Helper()
		for command, c := range waiting {
			if got := c.got(); got != want[command] {
				t.Errorf("who waits for %s got %q, want %q", command, got, want[command])
			}
		}
		if got := elsewhere.got(); got != "" {
			t.Errorf("who waits in another namespace got %q", got)
		}
	}
	// WAIT * answered the WAIT of the next client.
	heard(map[string]string{"*": "+WAIT\r\n"})
	by.do("FOO")
	heard(nil)
	by.do("SET") // also when it fails
	heard(map[string]string{"SET": "+SET\r\n"})
	by.do("SET", "k", "v")
	heard(nil)
	by.do("setx", "k", "w")
	heard(map[string]string{"SETX": "+SETX\r\n"})
	by.do("GET", "none")
	heard(map[string]string{"get": "+GET\r\n"})
	again := b.client()
	again.want("", "WAIT *")
	heard(map[string]string{"WAIT": "+WAIT\r\n"})
	by.all("SELECT other") // its command counts where it has gone
	if got := elsewhere.got(); got != "+SELECT\r\n" {
		t.Errorf("got %q", got)
	}
	by.all("SELECT default")
	if got := again.got(); got != "+SELECT\r\n" {
		t.Errorf("got %q", got)
	}
}

func TestWaitEndsInTime(t *testing.T) {
	b := open(t, zdb.Config{})
	long, short, standard := b.client(), b.client(), b.client()
	now := time.Now()
	long.want("", "WAIT SET 100000")
	short.want("", "WAIT SET 100")
	standard.want("", "WAIT SET")
	if next := b.srv.Tick(now); next > 200*time.Millisecond {
		t.Errorf("the next tick is in %v, want it when the first is over", next)
	}
	b.srv.Tick(now.Add(90 * time.Millisecond))
	if got := short.got() + standard.got() + long.got(); got != "" {
		t.Errorf("got %q too soon", got)
	}
	b.srv.Tick(now.Add(time.Second))
	if got := short.got(); got != "-Timeout\r\n" {
		t.Errorf("got %q", got)
	}
	b.srv.Tick(now.Add(4900 * time.Millisecond))
	if got := standard.got(); got != "" {
		t.Errorf("got %q too soon", got)
	}
	b.srv.Tick(now.Add(6 * time.Second))
	if got := standard.got(); got != "-Timeout\r\n" {
		t.Errorf("got %q", got)
	}
	// Once over, it isn't woken.
	b.client().do("SET", "k", "v")
	if got := short.got() + standard.got(); got != "" {
		t.Errorf("got %q afterwards", got)
	}
	if got := long.got(); got != "+SET\r\n" {
		t.Errorf("got %q", got)
	}
}

func TestWaiterLeaves(t *testing.T) {
	b := open(t, zdb.Config{})
	c, stays := b.client(), b.client()
	c.want("", "WAIT SET")
	stays.want("", "WAIT SET")
	c.leave()
	b.client().do("SET", "k", "v")
	if c.got() != "" || stays.got() != "+SET\r\n" {
		t.Error("who left is answered, or who stayed isn't")
	}
	b.srv.Tick(time.Now().Add(time.Hour))
	if got := c.got(); got != "" {
		t.Errorf("who left got %q", got)
	}
}

func TestWaiterInARemovedNamespace(t *testing.T) {
	b := open(t, zdb.Config{})
	c, inside := b.client(), b.client()
	c.all("NSNEW a")
	inside.all("SELECT a")
	inside.want("", "WAIT * 1800000")
	c.all("NSDEL a")
	if got := inside.got(); got != "-Your active namespace is not available anymore (probably removed).\r\n" {
		t.Errorf("got %q", got)
	}
}

// Over sockets: the reply comes when the time is over, while others keep the
// server busy and while they don't: long before the default of 5 s.
func TestWaitOverSockets(t *testing.T) {
	w := serve(t, zdb.Config{})
	for _, busy := range []bool{false, true} {
		stop, ended := make(chan struct{}), make(chan struct{})
		by := w.dial(t)
		go func() {
			defer close(ended)
			for busy {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := by.Do("PING"); err != nil {
					t.Error(err)
					return
				}
			}
		}()
		c := w.dial(t)
		begun := time.Now()
		_, err := c.Do("WAIT", "SET", "150")
		took := time.Since(begun)
		if err == nil || err.Error() != "Timeout" || took < 150*time.Millisecond || took > 4*time.Second {
			t.Errorf("busy %v: WAIT SET 150 took %v: %v", busy, took, err)
		}
		close(stop)
		<-ended
	}
}
