package zdb_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/zdb"
)

// smallDisk is a file system of its own.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("zdb", dir, "tmpfs", 0, "mode=0700,size="+size); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// On a full disk writing clients get an error or are disconnected, acknowledged
// entries stay, reading goes on, and writing does when there is room again.
func TestFullDisk(t *testing.T) {
	disk := smallDisk(t, "48m")
	filler := filepath.Join(disk, "filler")
	if err := os.WriteFile(filler, make([]byte, 24<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	w := serve(t, zdb.Config{Data: filepath.Join(disk, "data"), Log: zerolog.New(&log)})
	reader := w.dial(t)
	known := map[string]string{}
	refused := 0
	put := func(n int) bool {
		c := w.dial(t)
		defer c.Close()
		key, value := fmt.Sprint("key", n), strings.Repeat(fmt.Sprint(n, " "), 20000)
		got, err := redis.String(c.Do("SET", key, value))
		if err != nil {
			refused++
			return false
		}
		if got != key {
			t.Errorf("SET answers %q", got)
		}
		known[key] = value
		return true
	}
	n := 0
	for ; refused < 5 && n < 2000; n++ {
		put(n)
	}
	if refused < 5 || len(known) == 0 {
		t.Fatalf("%d values fit on a small disk, %d were refused", len(known), refused)
	}
	holds := func(what string, c redis.Conn) {
		t.Helper()
		for key, want := range known {
			if got, err := redis.String(c.Do("GET", key)); err != nil || got != want {
				t.Fatalf("%s: GET %s: %d bytes, %v, want %d", what, key, len(got), err, len(want))
			}
		}
		if got, err := redis.Int(c.Do("DBSIZE")); err != nil || got != len(known) {
			t.Errorf("%s: DBSIZE: %d, %v, want %d", what, got, err, len(known))
		}
	}
	holds("full", reader)
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	soon(t, "writing goes on", func() bool { n++; return put(n) })
	holds("with room again", w.dial(t))
	st, err := w.srv.Stats(t.Context())
	if err != nil || st.WriteErrors == 0 && st.ReadErrors == 0 {
		t.Errorf("no error is counted: %+v, %v", st, err)
	}
	w.stop(t)
	w.start(t)
	holds("after a start", w.dial(t))
	if !strings.Contains(log.String(), "no space left on device") {
		t.Errorf("the log doesn't say it: %.1000s", log.String())
	}
}

// A value that isn't on disk as it was written is an error, never data.
func TestADamagedValue(t *testing.T) {
	var log bytes.Buffer
	b := open(t, zdb.Config{Data: t.TempDir(), Log: zerolog.New(&log)})
	c := b.client()
	const mark = "the value that is going to be damaged"
	c.all("NSNEW a", "SELECT a")
	for _, key := range []string{"before", "bad", "after"} {
		if got := c.do("SET", key, key+" "+mark); got != bulk(key) {
			t.Fatal(got)
		}
	}
	b.again()
	found := grep(t, b.cfg.Data, "bad "+mark)
	if len(found) != 1 {
		t.Fatalf("the value is in %v", found)
	}
	data, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	data[bytes.Index(data, []byte("bad "+mark))+6] ^= 1
	if err := os.WriteFile(found[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // before a start, and after one
		c = b.client()
		c.all("SELECT a")
		c.want("-Internal Error\r\n", "GET bad")
		c.want(":0\r\n", "CHECK bad")
		c.want("*2\r\n"+bulk("before "+mark)+"-Internal Error\r\n", "MGET before bad")
		c.want("-Internal Error\r\n", "HISTORY bad")
		c.want(":1\r\n", "EXISTS bad")
		for _, key := range []string{"before", "after"} {
			c.want(bulk(key+" "+mark), "GET "+key)
			c.want(":1\r\n", "CHECK "+key)
		}
		if got := c.field("NSINFO a", "stats_data_faults"); got == "0" {
			t.Error("no fault is counted")
		}
		b.again()
	}
	if !strings.Contains(log.String(), `"namespace":"a"`) {
		t.Errorf("the log doesn't say it: %s", log.String())
	}
	c = b.client()
	c.all("SELECT a")
	c.want(bulk("bad"), "SET bad new")
	c.want(bulk("new"), "GET bad")
}
