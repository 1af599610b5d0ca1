package zdb_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/croft-edge/croft/zdb"
)

// Stores that changed are looked after each second, and no more once they rest.
func TestStoresWorkWhileTheyChange(t *testing.T) {
	b := open(t, zdb.Config{})
	c := b.client()
	c.all("NSNEW a", "NSNEW b", "NSNEW c", "SELECT a")
	now := time.Now()
	c.want(bulk("k"), "SET k v")
	busy := func(after time.Duration, want int) {
		t.Helper()
		// A store may be in the midst of something.
		soon(t, fmt.Sprintf("after %v %d stores are looked after", after, want), func() bool {
			if next := b.srv.Tick(now.Add(after)); next < 0 || next > time.Second {
				t.Errorf("after %v: the next tick is in %v", after, next)
			}
			after += 100 * time.Millisecond
			return b.srv.Busy() == want
		})
	}
	busy(0, 1)
	busy(10*time.Second, 1)
	c.all("SELECT b")
	c.want(bulk("k"), "SET k v")
	busy(50*time.Second, 2)
	busy(2*time.Minute, 0)
	c.want(bulk("k"), "SET k w")
	busy(3*time.Minute, 1)
	// One that is removed isn't.
	c.all("SELECT default", "NSDEL b")
	busy(3*time.Minute, 0)
}

// Commands of one round come one after the other, whatever they do to the data:
// each reply is the one of its moment.
func TestCommandsOfOneRound(t *testing.T) {
	b := open(t, zdb.Config{})
	admin, one, other := b.client(), b.client(), b.client()
	admin.all("NSNEW a", "NSSET a password pw", "NSSET a public 0", "NSNEW b")
	one.all("SELECT a pw")
	other.all("SELECT b")
	one.send("SET", "early", "1")
	admin.send("RELOAD", "a")
	one.send("SET", "key", "2")
	other.send("SET", "k", "v")
	one.send("FLUSH")
	one.send("SET", "late", "3")
	admin.send("NSDEL", "b")
	other.send("SET", "k", "w")
	if err := b.srv.Flush(); err != nil {
		t.Fatal(err)
	}
	for c, want := range map[*client]string{
		one: bulk("early") + bulk("key") + ok + bulk("late"), admin: ok + ok,
		other: bulk("k") + "-Your active namespace is not available anymore (probably removed).\r\n",
	} {
		if got := c.got(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for range 2 {
		one.want(null, "GET early")
		one.want(null, "GET key")
		one.want(bulk("3"), "GET late")
		b.again()
		one = b.client()
		one.all("SELECT a pw")
	}
}
