package zdb_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/zdb"
)

// When space is needed, deleted and overwritten values are forgotten. Cursors that
// point there go on being good, and positions of HISTORY say that there is no more.
func TestCursorsOfCleanedEntries(t *testing.T) {
	data, err := os.MkdirTemp("/dev/shm", "zdbforget") // it writes much
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(data) })
	b := open(t, zdb.Config{Data: data, Mode: zdb.ModeUser})
	c := b.client()
	const entries = 140000 // more than two of the index' files hold
	for n := range entries {
		c.send("SET", fmt.Sprintf("key %06d", n), "value")
		if n%1000 == 999 {
			c.do("PING")
		}
	}
	cursor := func(n int) string {
		reply := c.do("KEYCUR", fmt.Sprintf("key %06d", n))
		if !strings.HasPrefix(reply, "$17\r\n") {
			t.Fatalf("KEYCUR of %d: %q", n, reply)
		}
		return reply[5:22]
	}
	cursors := map[int]string{}
	for n := 1000; n < 120000; n += 10001 {
		cursors[n] = cursor(n)
	}
	c.do("SET", "old", "first")
	c.do("SET", "old", "second")
	history := parse(t, c.do("HISTORY", "old")).([]any)
	position := history[0].(string)
	for n := range entries - 5000 {
		if n%5000 != 4999 {
			c.send("DEL", fmt.Sprintf("key %06d", n))
		}
		if n%1000 == 999 {
			c.do("PING")
		}
	}
	// 400 MiB are overwritten, so space is needed.
	now := time.Now()
	for n := range 200 {
		c.do("SET", "old", strings.Repeat(fmt.Sprint(n%10), 2<<20))
		now = now.Add(time.Second)
		b.srv.Tick(now)
	}
	soon(t, "what isn't needed is forgotten", func() bool {
		now = now.Add(time.Second)
		b.srv.Tick(now)
		return c.do("HISTORY", "old", position) == "-No more history\r\n" && du(t, data) < 250<<20
	})
	b.srv.PageRows(1)
	row := func(command, cursor string) string {
		page := parse(t, c.do(command, cursor)).([]any)
		return page[1].([]any)[0].([]any)[0].(string)
	}
	for n, cursor := range cursors {
		next := (n/5000)*5000 + 4999
		if got, want := row("SCAN", cursor), fmt.Sprintf("key %06d", next); got != want {
			t.Errorf("after key %d: %q, want %q", n, got, want)
		}
		if n < 5000 {
			if got := c.do("RSCAN", cursor); got != "-No more data\r\n" {
				t.Errorf("before key %d: %q", n, got)
			}
			continue
		}
		if got, want := row("RSCAN", cursor), fmt.Sprintf("key %06d", next-5000); got != want {
			t.Errorf("before key %d: %q, want %q", n, got, want)
		}
	}
	if got := c.do("SCAN", strings.Repeat("\x00", 17)); got != "-Invalid key format\r\n" {
		t.Errorf("a cursor of zeros: %q", got)
	}
}
