package zdb_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/zdb"
)

// script writes a hook program.
func script(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hook.sh")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestHookEvents(t *testing.T) {
	told := filepath.Join(t.TempDir(), "told")
	b := open(t, zdb.Config{Data: t.TempDir(), Hook: script(t, `shift 0; kind=$1; shift 2; echo "$kind $*" >> `+told+"\n")})
	// The first is run before anything else, and waited for.
	if data, err := os.ReadFile(told); err != nil || !strings.HasPrefix(string(data), fmt.Sprintf("namespaces-init %s %s\n", b.cfg.Data, b.cfg.Data)) {
		t.Errorf("%s, %v", data, err)
	}
	c := b.client()
	c.all("NSNEW a", "NSSET a maxsize 5", "NSSET a lock 1", "NSSET a mode seq", "RELOAD a", "NSDEL a")
	soon(t, "all hooks have ended", func() bool {
		data, _ := os.ReadFile(told)
		return strings.HasSuffix(string(data), "ready \nnamespace-created a\nnamespace-updated a\nnamespace-updated a\nnamespace-reloaded a\nnamespace-deleted a\n")
	})
	soon(t, "HOOKS tells of all", func() bool { return !strings.Contains(c.do("HOOKS"), ":0\r\n:0\r\n") })
	list := c.do("HOOKS")
	if !strings.HasPrefix(list, "*7\r\n*6\r\n"+bulk("namespaces-init")+"*2\r\n"+bulk(b.cfg.Data)+bulk(b.cfg.Data)+":") || strings.Count(list, "*6\r\n") != 7 {
		t.Errorf("HOOKS: %q", list)
	}
}

func TestFailingHook(t *testing.T) {
	for body, status := range map[string]string{"exit 7": "7", "kill -9 $$": "255"} {
		var log bytes.Buffer
		b := open(t, zdb.Config{Data: t.TempDir(), Hook: script(t, body), Log: zerolog.New(&log)})
		soon(t, "HOOKS tells how it ended", func() bool { return strings.Count(b.client().do("HOOKS"), ":"+status+"\r\n") == 2 })
		b.close()
		if !strings.Contains(log.String(), "a hook failed") {
			t.Error(log.String())
		}
	}
	b := open(t, zdb.Config{Data: t.TempDir(), Hook: "/nowhere/hook"})
	soon(t, "HOOKS tells that it isn't there", func() bool { return strings.Count(b.client().do("HOOKS"), ":255\r\n") == 2 })
}

// A hook that doesn't end holds nobody up, its list doesn't grow for ever, and it
// ends with the server, and with it what it started.
func TestHangingHook(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	var log bytes.Buffer
	b := open(t, zdb.Config{Data: t.TempDir(), Hook: script(t, `[ "$1" = namespaces-init ] && exit 0
sleep 3600 & echo $! $$ > `+pids+".new; mv "+pids+".new "+pids+"; wait\n"), Log: zerolog.New(&log)})
	c := b.client()
	for i := range 300 {
		c.all(fmt.Sprint("NSNEW a", i))
	}
	if got := c.do("HOOKS"); !strings.HasPrefix(got, "*256\r\n") {
		t.Errorf("HOOKS begins with %q", clip([]byte(got))[:10])
	}
	var running []int
	soon(t, "the hook runs", func() bool {
		data, _ := os.ReadFile(pids)
		running = running[:0]
		for _, word := range strings.Fields(string(data)) {
			if pid, err := strconv.Atoi(word); err == nil {
				running = append(running, pid)
			}
		}
		return len(running) == 2
	})
	b.close()
	for _, pid := range running {
		soon(t, fmt.Sprintf("process %d has ended", pid), func() bool { return unix.Kill(pid, 0) == unix.ESRCH || zombie(pid) })
	}
	if !strings.Contains(log.String(), "a hook isn't run") {
		t.Error("nothing in the log of those that aren't run")
	}
}

// The second argument is the server's instance, where 0-db says where it listens.
func TestHookInstance(t *testing.T) {
	told := filepath.Join(t.TempDir(), "told")
	b := open(t, zdb.Config{Hook: script(t, `echo "$1 $2 $#" >> `+told+"\n")})
	c := b.client()
	c.all("NSNEW a")
	id := c.field("INFO", "instance_id")
	want := fmt.Sprintf("namespaces-init %s 4\nready %[1]s 2\nnamespace-created %[1]s 3\n", id)
	soon(t, "hooks are told the instance", func() bool {
		data, _ := os.ReadFile(told)
		return string(data) == want
	})
}

// zombie says that a process has ended and nobody has asked how.
func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && bytes.Contains(stat, []byte(") Z "))
}
