package zdb_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/croft-edge/croft/zdb"
	"github.com/croft-edge/croft/zdb/loop"
)

// NSINFO says the same before and after a start.
func TestNsinfoAfterAStart(t *testing.T) {
	for _, cfg := range []zdb.Config{{}, {Compat: zdb.CompatV1}, {Mode: zdb.ModeSequential}, {Mode: zdb.ModeSequential, Compat: zdb.CompatV1}, {DataSize: 4096}} {
		b := open(t, cfg)
		c := b.client()
		ids := []string{}
		for i := range 50 {
			key := fmt.Sprint("key", i)
			if cfg.Mode == zdb.ModeSequential {
				key = ""
			}
			reply := c.do("SET", key, strings.Repeat("x", i*10))
			_, id, _ := strings.Cut(reply, "\r\n")
			ids = append(ids, strings.TrimSuffix(id, "\r\n"))
		}
		for i, id := range ids {
			switch i % 5 {
			case 1:
				c.do("DEL", id)
			case 2:
				c.do("SET", id, "changed")
			}
		}
		lines := []string{"entries", "data_size_bytes", "data_size_mb", "index_size_bytes", "index_size_kb", "mode"}
		if cfg.Mode == zdb.ModeSequential { // else 0-db counts another way after a start, and so does this
			lines = append(lines, "next_internal_id")
		}
		if cfg.Compat != zdb.CompatV1 {
			lines = append(lines, "data_current_id", "data_current_offset", "data_active", "index_active")
		}
		before := map[string]string{}
		for _, name := range lines {
			before[name] = c.field("NSINFO default", name)
		}
		if before["entries"] != "40" {
			t.Errorf("entries: %s", before["entries"])
		}
		scan := c.do("SCAN")
		b.again()
		c = b.client()
		for _, name := range lines {
			if got := c.field("NSINFO default", name); got != before[name] {
				t.Errorf("%+v: %s is %s after a start, was %s", cfg, name, got, before[name])
			}
		}
		if got := c.do("SCAN"); got != scan {
			t.Errorf("%+v: SCAN answers %q after a start, was %q", cfg, got, scan)
		}
	}
}

// Over the admin socket NSINFO reports the use of the disk; elsewhere it is 0-db's.
func TestNsinfoOnTheAdminSocket(t *testing.T) {
	b := open(t, zdb.Config{})
	for c, want := range map[*client]bool{b.client(): false, b.admin(): true} {
		if got := strings.Contains(c.do("NSINFO", "default"), "\ndisk_size_bytes: "); got != want {
			t.Errorf("it tells: %t, want %t", got, want)
		}
	}
}

func TestNsinfoOfAFullNamespace(t *testing.T) {
	c := open(t, zdb.Config{}).client()
	c.all("NSNEW a", "SELECT a")
	c.do("SET", "k", strings.Repeat("x", 3<<20))
	c.all("NSSET a maxsize 100")
	for name, want := range map[string]string{"space_available": "0", "data_size_bytes": "3145728", "data_size_mb": "3.00", "data_limits_bytes": "100"} {
		if got := c.field("NSINFO a", name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	for _, name := range []string{"data_disk_freespace_bytes", "index_disk_freespace_bytes"} {
		if n, err := strconv.ParseUint(c.field("NSINFO a", name), 10, 64); err != nil || n == 0 {
			t.Errorf("%s is %d, %v", name, n, err)
		}
	}
}

// Passwords aren't in INFO or NSINFO, nor in any other reply.
func TestInfoTellsNoPassword(t *testing.T) {
	b := open(t, zdb.Config{Admin: "rootsecret", Data: t.TempDir()})
	c := b.client()
	c.all("AUTH rootsecret", "NSNEW a", "NSSET a password namesecret")
	c.do("MASTER")
	for _, command := range []string{"INFO", "NSINFO a", "NSINFO default", "HOOKS", "NSLIST"} {
		if got := c.do(strings.Fields(command)...); strings.Contains(got, "secret") {
			t.Errorf("%s tells a password: %s", command, got)
		}
	}
}

func TestStats(t *testing.T) {
	w := serve(t, zdb.Config{MaxSize: 1000})
	c := w.dial(t)
	for _, command := range [][]any{{"SET", "k", "value"}, {"GET", "k"}, {"get", "k"}, {"NSNEW", "a"}, {"FOO"}, {"SELECT", "a"}, {"SET", "", "v"}} {
		_, _ = c.Do(command[0].(string), command[1:]...)
	}
	waiting := w.dial(t)
	if err := waiting.Send("WAIT", "SET", "60000"); err != nil {
		t.Fatal(err)
	}
	if err := waiting.Flush(); err != nil {
		t.Fatal(err)
	}
	var st zdb.Stats
	soon(t, "WAIT is counted", func() bool {
		var err error
		if st, err = w.srv.Stats(t.Context()); err != nil {
			t.Fatal(err)
		}
		return st.Waiting == 1
	})
	if st.Sessions != 2 || st.Clients != 2 || st.Commands["SET"] != 2 || st.Commands["GET"] != 2 || st.Commands["PING"] != 0 || st.Unknown != 1 || st.Read != 10 {
		t.Errorf("stats: %+v", st)
	}
	if len(st.Namespaces) != 2 || st.Damaged != 0 {
		t.Fatalf("namespaces: %+v", st.Namespaces)
	}
	if ns := st.Namespaces[0]; ns.Name != "default" || ns.Mode != "user" || ns.Entries != 1 || ns.Bytes != 5 || ns.Limit != 1000 || ns.Errors != 0 {
		t.Errorf("default: %+v", ns)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.srv.Stats(gone); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	srv := w.srv
	w.stop(t)
	if _, err := srv.Stats(t.Context()); err == nil {
		t.Error("a server that has ended tells something")
	}
	if _, err := open(t, zdb.Config{}).srv.Stats(t.Context()); err == nil {
		t.Error("a server without a loop tells something")
	}
	var _ loop.Handler = srv
}
