package zdb_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/croft-edge/croft/pkg/zdbspace"
	"github.com/croft-edge/croft/zdb"
)

// There may be many more namespaces than files that the process may open.
func TestManyNamespacesAndFewFiles(t *testing.T) {
	script := filepath.Join(t.TempDir(), "zdb.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nulimit -n 128\nexec "+build(t)+" \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	p := &process{program: script}
	const many = 200 // each with two files
	for round := range 2 {
		c, err := redis.Dial("tcp", p.start(t), redis.DialReadTimeout(patience))
		if err != nil {
			t.Fatal(err)
		}
		for n := range many {
			name := fmt.Sprint("space ", n)
			if round == 0 {
				if _, err := c.Do("NSNEW", name); err != nil {
					t.Fatalf("%s: %v: %s", name, err, p.errs.String())
				}
			}
			if _, err := c.Do("SELECT", name); err != nil {
				t.Fatal(err)
			}
			if round == 0 {
				_, err = c.Do("SET", "key", name)
			} else if got, _ := redis.String(c.Do("GET", "key")); got != name {
				t.Fatalf("GET in %s: %q", name, got)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		_ = c.Close()
		p.stop(t)
	}
}

// Whatever is overwritten and deleted: a namespace's files stay below what its
// limit says, from one moment to the next.
func TestTheDiskOfANamespaceIsBounded(t *testing.T) {
	data, err := os.MkdirTemp("/dev/shm", "zdbbound") // it writes much
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(data) })
	const limit = 16 << 20
	b := open(t, zdb.Config{Data: data})
	c := b.client()
	c.all("NSNEW a", fmt.Sprint("NSSET a maxsize ", limit), "SELECT a")
	value := make([]byte, 1<<20)
	most := uint64(0)
	for n := range 900 {
		value[0], value[1] = byte(n), byte(n>>8)
		key := fmt.Sprint("key ", n%14)
		if got := c.do("SET", key, string(value)); got != bulk(key) {
			t.Fatalf("SET %d: %q", n, got)
		}
		if n%5 == 4 {
			c.do("DEL", fmt.Sprint("key ", (n+3)%14))
		}
		if n%10 == 0 {
			most = max(most, uint64(du(t, filepath.Join(data, "1"))))
		}
	}
	if bound := zdbspace.Bound(limit); most > bound || most < bound/3 {
		t.Errorf("with a limit of %d bytes it took %d of the disk, must be at most %d", limit, most, bound)
	}
}
