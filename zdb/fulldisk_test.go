package zdb_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"golang.org/x/sys/unix"
)

// fillDisk leaves no room on the disk of a file.
func fillDisk(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	_ = f.Close()
}

// After a restart on a full disk, of either kind, every namespace reads, takes all deletions, and then takes values
// again by itself.
func TestARestartOnAFullDisk(t *testing.T) {
	program := build(t)
	for _, end := range []string{"SIGTERM", "SIGKILL"} {
		t.Run(end, func(t *testing.T) {
			disk := smallDisk(t, "48m")
			filler := filepath.Join(disk, "filler")
			p := &process{program: program, args: []string{"--data", filepath.Join(disk, "data"), "--index", filepath.Join(disk, "index")}}
			address := p.start(t)
			names := []string{"a", "b", "c"}
			c := dialAddress(t, address)
			for _, name := range names {
				must(t, c, "NSNEW", name)
			}
			keys := map[string]int{}
			for refused := 0; refused < 6; {
				for _, name := range names {
					must(t, c, "SELECT", name)
					key := fmt.Sprint("key", keys[name])
					if _, err := c.Do("SET", key, strings.Repeat(key+" ", 1000)); err != nil {
						if !strings.Contains(err.Error(), "No space left on the disk of this server") {
							t.Fatal(err)
						}
						refused++
						continue
					}
					keys[name]++
				}
			}
			fillDisk(t, filler)
			if end == "SIGTERM" {
				p.stop(t)
			} else {
				_ = p.cmd.Process.Kill()
				<-p.done
				p.cmd = nil
			}
			c = dialAddress(t, p.start(t))
			for _, name := range names {
				must(t, c, "SELECT", name)
				if n, err := redis.Int(c.Do("DBSIZE")); err != nil || n != keys[name] || n < 420 {
					t.Fatalf("%s has %d keys, %v, want %d", name, n, err, keys[name])
				}
				failed := 0
				for i := range 400 {
					if got, err := redis.String(c.Do("DEL", fmt.Sprint("key", i))); err != nil || got != "OK" {
						failed++
					}
				}
				if failed > 0 {
					t.Errorf("%s: %d of 400 deletions failed", name, failed)
				}
			}
			for _, name := range names {
				must(t, c, "SELECT", name)
				for i := 400; i < keys[name]; i++ {
					must(t, c, "DEL", fmt.Sprint("key", i))
				}
				soon(t, name+" takes values again", func() bool {
					_, err := c.Do("SET", "new", strings.Repeat("new ", 1000))
					return err == nil
				})
				if got, err := redis.String(c.Do("GET", "new")); err != nil || len(got) != 4000 {
					t.Errorf("%s: %d bytes, %v", name, len(got), err)
				}
			}
		})
	}
}

func dialAddress(t *testing.T, address string) redis.Conn {
	t.Helper()
	c, err := redis.Dial("tcp", address, redis.DialReadTimeout(patience), redis.DialWriteTimeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func must(t *testing.T, c redis.Conn, command string, args ...any) {
	t.Helper()
	if _, err := c.Do(command, args...); err != nil {
		t.Fatalf("%s %v: %v", command, args, err)
	}
}
