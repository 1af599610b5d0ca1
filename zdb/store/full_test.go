package store_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/zdb/store"
)

// smallDisks are file systems that can be full, by what they are.
func smallDisks() map[string]func(t *testing.T) string {
	return map[string]func(t *testing.T) string{
		"tmpfs": func(t *testing.T) string { return mounted(t, "", "-t", "tmpfs", "-o", "size=64m", "none") },
		"ext4":  func(t *testing.T) string { return mounted(t, "mkfs.ext4", "-o", "loop") },
		"btrfs": func(t *testing.T) string { return mounted(t, "mkfs.btrfs", "-o", "loop") },
		"btrfs, quota": func(t *testing.T) string {
			dir := mounted(t, "mkfs.btrfs", "-o", "loop")
			sub := filepath.Join(dir, "volume")
			run(t, "btrfs", "quota", "enable", dir)
			run(t, "btrfs", "subvolume", "create", sub)
			run(t, "btrfs", "qgroup", "limit", "64M", sub)
			return sub
		},
	}
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
}

// mounted mounts a new file system; the arguments are mount's without the folder, and without the image if one is made.
func mounted(t *testing.T, mkfs string, args ...string) string {
	t.Helper()
	base, err := os.MkdirTemp("", "croftzdb-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	if mkfs != "" {
		image := filepath.Join(base, "image")
		f, err := os.Create(image)
		if err == nil {
			err = errors.Join(f.Truncate(160<<20), f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		run(t, mkfs, "-q", image)
		args = append(args, image)
	}
	dir := filepath.Join(base, "disk")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	run(t, "mount", append(args, dir)...)
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fillUp writes to a file until there is no room at all.
func fillUp(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	for full := 0; err == nil && full < 3; {
		n := 1 << 20 >> (5 * full)
		if _, err = f.Write(make([]byte, n)); errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
			full, err = full+1, nil
			_ = f.Sync()
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func testLog() zerolog.Logger {
	if os.Getenv("ZDBLOG") != "" {
		return zerolog.New(os.Stderr).With().Timestamp().Logger()
	}
	return zerolog.New(io.Discard)
}

// fullStore is one of several stores on a full disk, with its expected content.
type fullStore struct {
	cfg   store.Config
	s     *store.Store
	holds map[string]string
	keys  []string
	n     int
}

func (f *fullStore) put(size int) error {
	f.n++
	key := fmt.Sprintf("key-%d", f.n)
	if f.cfg.Sequential {
		key = ""
	}
	value := strings.Repeat(fmt.Sprint(f.n, " "), size/4)
	id, _, err := f.s.Set([]byte(key), []byte(value), store.SetOptions{At: 1})
	key = string(id)
	if e := f.s.Flush(); e != nil {
		err = e
	}
	if err == nil {
		f.holds[key] = value
		f.keys = append(f.keys, key)
	}
	return err
}

func (f *fullStore) check(t *testing.T, when string) {
	t.Helper()
	if got := f.s.Stats().Entries; got != uint64(len(f.holds)) {
		t.Fatalf("%s: %d entries, want %d", when, got, len(f.holds))
	}
	for k, want := range f.holds {
		if v, found, err := f.s.Get([]byte(k)); err != nil || !found || string(v) != want {
			t.Fatalf("%s: Get(%q): %d bytes, %t, %v", when, k, len(v), found, err)
		}
	}
}

func (f *fullStore) deletes(t *testing.T, n int, then func()) (failed int) {
	for range n {
		key := f.keys[0]
		f.keys = f.keys[1:]
		ok, err := f.s.Delete([]byte(key), 2)
		if e := f.s.Flush(); e != nil {
			err = e
		}
		if err != nil || !ok {
			if failed++; failed == 1 {
				t.Logf("DEL %q: %t, %v", key, ok, err)
			}
			continue
		}
		delete(f.holds, key)
		then()
	}
	return failed
}

// On a disk that is full every deletion is done, also after restarts and when others take the freed space;
// then the store cleans, and takes values again by itself.
func TestDeletionsOnFullDisk(t *testing.T) {
	for name, disk := range smallDisks() {
		for _, end := range []string{"runs on", "closed", "killed", "killed, others take"} {
			t.Run(name+", "+end, func(t *testing.T) {
				deleteOnFull(t, disk(t), strings.TrimSuffix(end, ", others take"), strings.HasSuffix(end, "take"))
			})
		}
	}
}

func deleteOnFull(t *testing.T, dir, end string, taker bool) {
	var all []*fullStore
	for i := range 3 {
		f := &fullStore{holds: map[string]string{}}
		f.cfg = store.Config{Dir: filepath.Join(dir, fmt.Sprint("store", i)), Layout: store.V2(), Sequential: i == 1, Log: testLog()}
		if i == 2 {
			f.cfg.MaxSize = 1 << 30
		}
		f.s = open(t, f.cfg)
		all = append(all, f)
	}
	for refused := 0; refused < 9; {
		for _, f := range all {
			if err := f.put(4000 + 20000*(f.n%2)); err != nil {
				refused++
			}
		}
	}
	fillUp(t, filepath.Join(dir, "ballast"))
	t.Logf("full with %d values", len(all[0].keys)+len(all[1].keys)+len(all[2].keys))
	for i, f := range all {
		if err := f.put(2000); err == nil {
			f.put(100000)
		}
		switch end {
		case "closed":
			_ = f.s.Close() // the checkpoint has no room
		case "killed":
			f.s.Discard()
		}
		if end != "runs on" {
			f.s = open(t, f.cfg)
		}
		f.check(t, fmt.Sprint("full, store ", i))
	}
	others := func(int) { fillUp(t, filepath.Join(dir, "ballast")) }
	if filepath.Base(dir) == "volume" {
		// Under a quota of btrfs every write needs some of it: nobody else writes there but the other stores.
		others = func(i int) {
			for range 20 {
				_ = all[(i+1)%3].put(4000)
			}
		}
	}
	for i, f := range all {
		if len(f.keys) < 450 {
			t.Fatalf("only %d values fit", len(f.keys))
		}
		then := func() {}
		if taker {
			then = func() {
				if len(f.keys)%50 == 0 {
					_, _ = f.s.Work(time.Now(), 1<<20)
					others(i)
				}
			}
		}
		if failed := f.deletes(t, 400, then); failed > 0 {
			t.Errorf("store %d: %d of 400 deletions failed", i, failed)
		}
		f.check(t, "deleted")
	}
	if taker {
		if err := os.Remove(filepath.Join(dir, "ballast")); err != nil {
			t.Fatal(err)
		}
	}
	for i, f := range all {
		f.deletes(t, len(f.keys)-20, func() {})
		var err error
		for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
			if _, err = f.s.Work(time.Now(), 1<<20); err == nil {
				if err = f.put(2000); err == nil {
					break
				}
			}
		}
		if err != nil {
			t.Fatalf("store %d takes no values again: %v", i, err)
		}
		for range 20 {
			if err := f.put(2000); err != nil {
				t.Fatalf("store %d: %v", i, err)
			}
		}
		f.check(t, "written again")
		if err := f.s.Close(); err != nil {
			t.Fatal(err)
		}
		f.s = open(t, f.cfg)
		f.check(t, "in the end")
		f.s.Discard()
	}
}
