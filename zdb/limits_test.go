package zdb_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/zdb"
)

func TestNumberOfNamespacesIsLimited(t *testing.T) {
	b := open(t, zdb.Config{MaxNamespaces: 3})
	c := b.client()
	c.all("NSNEW a", "NSNEW b")
	c.want("-Too many namespaces on this server\r\n", "NSNEW c")
	c.all("NSDEL a", "NSNEW c")
	c.want("-Too many namespaces on this server\r\n", "NSNEW d")
	b.again()
	c = b.client()
	c.want("*3\r\n"+bulk("default")+bulk("c")+bulk("b"), "NSLIST")
	c.want("-Too many namespaces on this server\r\n", "NSNEW d")
}

// At the memory limit new keys are refused; existing ones can be read, changed
// and deleted, and deletions make room.
func TestMemoryOfKeysIsLimited(t *testing.T) {
	const limit = 1 << 20
	b := open(t, zdb.Config{Memory: limit, Data: t.TempDir()})
	c := b.client()
	n := 0
	for ; n < 1<<20; n++ {
		if got := c.do("SET", fmt.Sprint("key", n), "v"); got[0] == '-' {
			if got != "-No memory left for keys on this server\r\n" {
				t.Fatal(got)
			}
			break
		}
	}
	if n < 10000 || n == 1<<20 {
		t.Fatalf("the limit of %d bytes is reached with %d keys", limit, n)
	}
	c.want(bulk("key0"), "SET key0 changed")
	c.want(bulk("changed"), "GET key0")
	c.all("DEL key1")
	if st := b.srv; st == nil {
		t.Fatal()
	}
	c.all("NSNEW seq")
	b.again()
	c = b.client()
	c.want(bulk("changed"), "GET key0")
	c.want(fmt.Sprintf(":%d\r\n", n-1), "DBSIZE")
}

// One namespace's keys leave memory for those of others, whichever came first; the
// memory of its deleted keys, or of the removed namespace, is free for others.
func TestMemoryOfKeysIsShared(t *testing.T) {
	before := limit.Times()[zdb.KeyMemory.Name]
	b := open(t, zdb.Config{Memory: 4 << 20})
	c := b.client()
	fill := func(most int) (n int) {
		t.Helper()
		for ; n < most; n++ {
			switch got := c.do("SET", fmt.Sprint("key", n), "v"); got {
			case bulk(fmt.Sprint("key", n)):
			case "-No memory left for keys on this server\r\n":
				return n
			default:
				t.Fatal(got)
			}
		}
		return n
	}
	for i := range 4 {
		c.all(fmt.Sprint("NSNEW n", i), fmt.Sprint("SELECT n", i))
		if i == 0 {
			if n := fill(1 << 20); n < 20_000 {
				t.Errorf("the first has %d keys", n)
			}
			continue
		}
		if n := fill(5000); n < 5000 {
			t.Errorf("number %d has %d keys", i, n)
		}
	}
	if limit.Times()[zdb.KeyMemory.Name] == before {
		t.Error("that wasn't counted")
	}
	c.all("NSDEL n0", "NSNEW m", "SELECT m")
	if n := fill(20_000); n < 20_000 {
		t.Errorf("after the first is removed there is room for %d keys", n)
	}
}

// NSDEL and FLUSH give the disk back, and nothing of it is left after a start.
func TestRemovalFreesTheDisk(t *testing.T) {
	for _, index := range []string{"", t.TempDir()} {
		b := open(t, zdb.Config{Data: t.TempDir(), Index: index})
		used := func() int64 {
			if index == "" {
				return du(t, b.cfg.Data)
			}
			return du(t, b.cfg.Data) + du(t, index)
		}
		before := used()
		c := b.client()
		c.all("NSNEW a", "NSSET a public 0", "NSSET a password pw", "SELECT a pw")
		for i := range 64 {
			c.do("SET", fmt.Sprint(i), strings.Repeat(fmt.Sprint(i), 50000))
		}
		if n := used(); n < 3<<20 {
			t.Fatalf("64 values take %d bytes", n)
		}
		c.all("FLUSH")
		soon(t, "FLUSH gives the disk back", func() bool { return used() < before+1<<20 })
		c.want(bulk("k"), "SET k v")
		c.all("SELECT default", "NSDEL a")
		soon(t, "NSDEL gives the disk back", func() bool { return used() <= before+1<<16 })
		for _, folder := range []string{b.cfg.Data, index} {
			if folder == "" {
				continue
			}
			for _, name := range []string{".*", "1"} {
				soon(t, "nothing is left of the folder", func() bool {
					left, _ := filepath.Glob(filepath.Join(folder, name))
					return len(left) == 0
				})
			}
		}
	}
}

// The next start cleans up after a crash at any point of NSNEW, NSDEL and
// FLUSH.
func TestCrashLeftoversAreRemoved(t *testing.T) {
	for _, separate := range []bool{false, true} {
		cfg := zdb.Config{Data: t.TempDir()}
		if separate {
			cfg.Index = t.TempDir()
		}
		b := open(t, cfg)
		c := b.client()
		c.all("NSNEW a", "SELECT a")
		c.want(bulk("k"), "SET k v")
		b.close()
		index := cfg.Index
		if index == "" {
			index = cfg.Data
		}
		for _, path := range []string{
			cfg.Data + "/.new-2/1/file",         // before NSNEW's rename
			cfg.Data + "/.gone-3-ABCDEFGH/file", // after NSDEL's
			index + "/.gone-3-ABCDEFGH/file",
			cfg.Data + "/1/2/file", // before FLUSH's descriptor
			index + "/1/2/file",
			cfg.Data + "/1/.tmp-namespace-123", // while it is written
			cfg.Data + "/.gone-1-9-ABCDEFGH/file",
		} {
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte("left"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if separate { // NSDEL had taken the data away, and not the index
			if err := os.MkdirAll(index+"/2/1", 0o700); err != nil {
				t.Fatal(err)
			}
		}
		others := []string{cfg.Data + "/lost+found", cfg.Data + "/007", cfg.Data + "/5", cfg.Data + "/admin.sock"}
		if err := os.Mkdir(others[0], 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(others[1], 0o700); err != nil {
			t.Fatal(err)
		}
		for _, path := range others[2:] { // a file is no namespace's folder
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		b.start()
		c = b.client()
		c.want("*2\r\n"+bulk("default")+bulk("a"), "NSLIST")
		c.all("SELECT a")
		c.want(bulk("v"), "GET k")
		soon(t, "what was left is gone", func() bool {
			var left []string
			for _, pattern := range []string{cfg.Data + "/.*", cfg.Data + "/1/.*", cfg.Data + "/1/2", index + "/.*", index + "/1/2", index + "/2"} {
				found, _ := filepath.Glob(pattern)
				left = append(left, found...)
			}
			return len(left) == 0
		})
		for _, path := range others {
			if _, err := os.Lstat(path); err != nil {
				t.Errorf("what isn't the server's is gone: %v", err)
			}
		}
	}
}

// Each step of FLUSH, NSNEW and NSDEL may fail: nothing is lost then, and the
// command can be sent again.
func TestFailingFolders(t *testing.T) {
	b := open(t, zdb.Config{Data: t.TempDir()})
	c := b.client()
	c.all("NSNEW a", "NSSET a public 0", "NSSET a password pw", "SELECT a pw")
	c.want(bulk("k"), "SET k v")
	block := func(path string) (unblock func()) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return func() { _ = os.RemoveAll(path) }
	}
	unblock := block(b.cfg.Data + "/1/2") // where FLUSH makes the next generation
	c.want("-Internal Error\r\n", "FLUSH")
	c.want(bulk("v"), "GET k")
	unblock()
	c.all("FLUSH")
	c.want(null, "GET k")
	unblock = block(b.cfg.Data + "/2") // where NSNEW makes the next namespace
	c.want("-Could not create namespace\r\n", "NSNEW b")
	c.want("-Namespace not found\r\n", "SELECT b")
	unblock()
	c.all("NSNEW b", "SELECT b")
	c.want(bulk("k"), "SET k v")
	names := c.do("NSLIST")
	b.again()
	c = b.client()
	c.want(names, "NSLIST")
	c.all("SELECT b")
	c.want(bulk("v"), "GET k")
}

// Folders and their numbers are used again, and NSLIST stays as it was.
func TestNumbersOfFolders(t *testing.T) {
	b := open(t, zdb.Config{Data: t.TempDir()})
	c := b.client()
	for i := range 12 {
		c.all(fmt.Sprint("NSNEW n", i))
	}
	c.all("NSDEL n3", "NSDEL n7", "NSNEW x", "NSNEW y", "NSNEW z")
	list := c.do("NSLIST")
	names := slices.DeleteFunc(strings.Split(list, "\r\n"), func(s string) bool { return s == "" || strings.ContainsAny(s[:1], "*$") })
	if want := "default n0 n1 n2 x n4 n5 n6 y n8 n9 n10 n11 z"; strings.Join(names, " ") != want {
		t.Errorf("got %v, want %s", names, want)
	}
	b.again()
	b.client().want(list, "NSLIST")
}
