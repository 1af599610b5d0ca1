package store_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/zdb/store"
)

// writerDir is set in the process that TestKilledProcess kills.
const writerDir = "STORE_TEST_WRITER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerDir); dir != "" {
		if err := writeForever(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

func writerConfig(dir string) store.Config {
	return store.Config{
		Dir: dir, Layout: store.V2(), SegmentSize: 64 << 10, MaxSize: 512 << 10,
		Sequential: strings.Contains(dir, "seq"), Sync: strings.Contains(dir, "sync"), Log: zerolog.Nop(),
	}.WithChunks(300)
}

// writeForever overwrites keys and prints, after each Flush, the number up to
// which everything is acknowledged.
func writeForever(dir string) error {
	s, err := store.Open(writerConfig(dir))
	if err != nil {
		return err
	}
	for n := uint64(0); ; n++ {
		key, value := writerEntry(n, writerConfig(dir).Sequential)
		if _, _, err := s.Set(key, value, store.SetOptions{At: uint32(n)}); err != nil {
			return err
		}
		if n%7 == 6 {
			if err := s.Flush(); err != nil {
				return err
			}
			if _, err := fmt.Println(n); err != nil {
				return err
			}
		}
	}
}

const writerKeys = 400

func writerEntry(n uint64, sequential bool) (key, value []byte) {
	value = bytes.Repeat([]byte{byte(n)}, int(n*37%900)+8)
	binary.LittleEndian.PutUint64(value, n)
	switch {
	case !sequential:
		key = fmt.Appendf(nil, "key-%d", n%writerKeys)
	case n >= writerKeys:
		key = binary.LittleEndian.AppendUint64(nil, n%writerKeys)
	}
	return key, value
}

func TestKilledProcessLosesNoAcknowledgedWrite(t *testing.T) {
	for _, mode := range []string{"user", "seq", "user-sync", "seq-sync"} {
		for _, acks := range []int{20, 100, 500} {
			t.Run(fmt.Sprintf("%s,%d", mode, acks), func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), mode)
				last := killWriter(t, dir, acks)
				s := open(t, writerConfig(dir))
				for i := uint64(0); i < writerKeys && i <= last; i++ {
					id := fmt.Appendf(nil, "key-%d", i)
					if strings.HasPrefix(mode, "seq") {
						id = binary.LittleEndian.AppendUint64(nil, i)
					}
					v, found, err := s.Get(id)
					if err != nil || !found || len(v) < 8 {
						t.Fatalf("key %d: %d bytes, %t, %v", i, len(v), found, err)
					}
					n := binary.LittleEndian.Uint64(v)
					if _, want := writerEntry(n, false); n%writerKeys != i || n+writerKeys <= last || !bytes.Equal(v, want) {
						t.Fatalf("key %d is of %d, %d bytes; %d was acknowledged", i, n, len(v), last)
					}
				}
				set(t, s, string(lastKey(s, t)), "after", 1)
			})
		}
	}
}

func lastKey(s *store.Store, t *testing.T) []byte {
	t.Helper()
	e, found, err := s.Last()
	if err != nil || !found {
		t.Fatal(found, err)
	}
	return slices.Clone(e.Key)
}

// killWriter kills a writing process when it has acknowledged so often, and answers
// the last number that it acknowledged.
func killWriter(t *testing.T, dir string, acks int) uint64 {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), writerDir+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	var last uint64
	lines := bufio.NewScanner(out)
	for i := 0; lines.Scan(); i++ {
		if _, err := fmt.Sscan(lines.Text(), &last); err != nil {
			t.Fatal(err)
		}
		if i == acks {
			if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait()
	if last < uint64(acks)*7 {
		t.Fatalf("the writer acknowledged only up to %d", last)
	}
	return last
}

func TestTornTailAtEveryByte(t *testing.T) {
	for _, sequential := range []bool{false, true} {
		disk := newMemDisk()
		cfg := store.Config{Dir: "/data", Layout: store.V2(), Sequential: sequential, Log: zerolog.Nop()}
		s := open(t, cfg.OnDisk(disk))
		var ends []int64 // of the log after each value
		for i := range 5 {
			key := fmt.Sprintf("key-%d", i)
			if sequential {
				key = ""
			}
			set(t, s, key, strings.Repeat("v", 20*i), 1)
			ends = append(ends, int64(len(disk.files["/data/log-0000000001"].content)))
		}
		for cut := int64(0); cut <= ends[4]; cut++ {
			d := disk.crash()
			f := d.files["/data/log-0000000001"]
			f.content = f.content[:cut]
			var said bytes.Buffer
			c := cfg
			c.Log = zerolog.New(&said)
			s := open(t, c.OnDisk(d))
			want := uint64(0)
			for _, end := range ends {
				if end <= cut {
					want++
				}
			}
			if got := s.Stats().Entries; got != want {
				t.Fatalf("cut at %d: %d entries, want %d", cut, got, want)
			}
			if torn := cut > 128 && !slices.Contains(ends, cut); torn != strings.Contains(said.String(), "torn end") {
				t.Fatalf("cut at %d it says: %s", cut, said.String())
			}
			id := "again"
			if sequential {
				id = ""
			}
			set(t, s, id, "again", 2)
			s.Discard()
			s = open(t, c.OnDisk(d))
			if got := s.Stats().Entries; got != want+1 {
				t.Fatalf("cut at %d, and written again: %d entries, want %d", cut, got, want+1)
			}
			s.Discard()
		}
	}
}

func TestDamagedRecordIsDetectedAndIsolated(t *testing.T) {
	for _, part := range []string{"head", "key", "payload"} {
		for _, rebuilt := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,rebuilt=%t", part, rebuilt), func(t *testing.T) { damageOne(t, part, rebuilt) })
		}
	}
}

func damageOne(t *testing.T, part string, rebuilt bool) {
	disk := newMemDisk()
	var said bytes.Buffer
	cfg := store.Config{Dir: "/data", Layout: store.V2(), SegmentSize: 4096, Log: zerolog.New(&said)}.OnDisk(disk)
	s := open(t, cfg)
	value := strings.Repeat("payload", 40)
	for i := range 100 {
		set(t, s, fmt.Sprintf("key-%03d", i), value, 1)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	f := disk.files["/data/log-0000000002"]
	at := bytes.Index(f.content, []byte("key-015"))
	switch part {
	case "head":
		at -= 10
	case "payload":
		at += 50
	}
	f.content[at] ^= 4
	if rebuilt {
		delete(disk.files, "/data/checkpoint")
	}
	s = open(t, cfg)
	good := 0
	for i := range 100 {
		key := fmt.Appendf(nil, "key-%03d", i)
		v, found, err := s.Get(key)
		switch {
		case err == nil && found && string(v) == value:
			good++
		case i == 15 && errors.Is(err, store.ErrDamaged):
		case i == 15 && rebuilt && part != "payload" && !found && err == nil:
			// Nobody can know any more that there was something.
		default:
			t.Fatalf("%s: %d bytes, %t, %v", key, len(v), found, err)
		}
	}
	if good != 99 {
		t.Fatalf("%d are good, want 99", good)
	}
	if !strings.Contains(said.String(), "damaged") || s.Stats().Damaged == 0 {
		t.Errorf("it says nothing: %s", said.String())
	}
	n := 0
	for e, ok, err := s.First(); ok; e, ok, err = s.Next(e) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n < 99 {
		t.Errorf("walking finds %d", n)
	}
	set(t, s, "key-015", "new", 2)
	if v, _, err := s.Get([]byte("key-015")); err != nil || string(v) != "new" {
		t.Errorf("written anew: %q, %v", v, err)
	}
}

func TestLostIndexIsRebuilt(t *testing.T) {
	for _, what := range []string{"checkpoint", "index-", ""} {
		disk := newMemDisk()
		cfg := store.Config{Dir: "/data", IndexDir: "/index", Layout: store.V2(), SegmentSize: 4096, MaxSize: 1 << 40, Log: zerolog.Nop()}.OnDisk(disk).WithChunks(20)
		s := open(t, cfg)
		told := newOracle(cfg)
		for i := range 300 {
			p := op{opSet, fmt.Sprintf("key-%d", i%40), fmt.Sprintf("value-%d", i), uint32(i)}
			if i%11 == 10 {
				p = op{kind: opDelete, key: fmt.Sprintf("key-%d", (i-1)%40)}
				del(t, s, p.key)
				told.do(p)
				continue
			}
			set(t, s, p.key, p.value, p.at)
			told.do(p)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		for path := range disk.files {
			if strings.HasPrefix(path, "/index/"+what) {
				delete(disk.files, path)
			}
		}
		s = open(t, cfg)
		told.check(t, s, false)
		s.Discard()
	}
}

func TestFullDiskLosesNothing(t *testing.T) {
	for _, sequential := range []bool{false, true} {
		dir := t.TempDir()
		if err := unix.Mount("store-test", dir, "tmpfs", 0, "size=3m"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(dir, 0); err != nil {
				t.Error(err)
			}
		})
		cfg := store.Config{Dir: filepath.Join(dir, "data"), Layout: store.V2(), Sequential: sequential, SegmentSize: 256 << 10, Log: zerolog.Nop()}
		s, err := store.Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ballast := filepath.Join(dir, "ballast")
		if err := os.WriteFile(ballast, make([]byte, 1<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		good := map[string]string{}
		put := func(i int) error {
			key, value := fmt.Sprintf("key-%d", i), strings.Repeat(fmt.Sprint(i, " "), 300)
			if sequential {
				key = ""
			}
			id, _, err := s.Set([]byte(key), []byte(value), store.SetOptions{At: 1})
			if err == nil {
				key = string(id)
			}
			if f := s.Flush(); f != nil {
				err = f
			}
			if err == nil {
				good[key] = value
			}
			return err
		}
		i, failed := 0, 0
		for ; failed < 20; i++ {
			if err := put(i); err != nil {
				if !errors.Is(err, syscall.ENOSPC) {
					t.Fatal(err)
				}
				failed++
			}
		}
		check := func() {
			t.Helper()
			if got := s.Stats().Entries; got != uint64(len(good)) {
				t.Fatalf("%d entries, want %d", got, len(good))
			}
			for k, want := range good {
				if v, found, err := s.Get([]byte(k)); err != nil || !found || string(v) != want {
					t.Fatalf("Get(%q): %d bytes, %t, %v", k, len(v), found, err)
				}
			}
		}
		check()
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(20 * time.Second); ; i++ {
			err := put(i)
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("there is room again: %v", err)
			}
		}
		for n := i + 50; i < n; i++ {
			if err := put(i); err != nil {
				t.Fatalf("there is room again: %v", err)
			}
		}
		check()
		s.Discard()
		if s, err = store.Open(cfg); err != nil {
			t.Fatal(err)
		}
		check()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFailedSyncStopsWrites(t *testing.T) {
	disk := newMemDisk()
	s := open(t, store.Config{Dir: "/data", Layout: store.V2(), Sync: true, Log: zerolog.New(io.Discard)}.OnDisk(disk))
	set(t, s, "a", "1", 1)
	if _, _, err := s.Set([]byte("b"), []byte("2"), store.SetOptions{}); err != nil {
		t.Fatal(err)
	}
	disk.left = 1 // the write; the sync fails
	if err := s.Flush(); err == nil {
		t.Fatal("Flush must say that the sync failed")
	}
	disk.left = -1
	if _, _, err := s.Set([]byte("c"), []byte("3"), store.SetOptions{}); err == nil {
		t.Error("nobody knows what is on disk: nothing may be written")
	}
	if v, found, err := s.Get([]byte("a")); err != nil || !found || string(v) != "1" {
		t.Errorf("reading must go on: %q, %t, %v", v, found, err)
	}
	if _, err := s.Work(time.Unix(1, 0), 1); err == nil {
		t.Error("Work must say so too")
	}
}
