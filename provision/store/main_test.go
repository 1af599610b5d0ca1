package store_test

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/atomicfile/faulty"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/store"
)

// testKey is a user's key, the same in every run.
func testKey() ed25519.PrivateKey { return ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)) }

// open opens a store that is closed with the test.
func open(t testing.TB, c store.Config) *store.FSStore {
	t.Helper()
	s, err := store.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// reservation makes a signed reservation; each is another request.
func reservation(typ workload.Type, id, data string, created time.Time, d time.Duration) *workload.Reservation {
	r := &workload.Reservation{
		ID: id, NodeID: sign.ID(testKey().Public().(ed25519.PublicKey)), Type: typ,
		Data: json.RawMessage(data), Created: created.UTC(), Duration: d,
	}
	if err := r.Sign(testKey()); err != nil {
		panic(err)
	}
	return r
}

func volume(id string, created time.Time, d time.Duration) *workload.Reservation {
	return reservation(workload.TypeVolume, id, `{"size": 1,  "type":"SSD"}`, created, d)
}

func network(id, name string, created time.Time, d time.Duration) *workload.Reservation {
	return reservation(workload.TypeNetwork, id, fmt.Sprintf(`{"name":%q}`, name), created, d)
}

// record makes r's record in a phase, as lifecycle would.
func record(r *workload.Reservation, p store.Phase) store.Record {
	h, err := r.Hash()
	if err != nil {
		panic(err)
	}
	rec := store.Record{Reservation: r, Hash: h, Phase: p, Accepted: r.Created}
	rec.Name, _ = store.KeyOf(r)
	switch p {
	case store.Waiting, store.Failed, store.Refused, store.Dismissed:
	default:
		rec.Admitted, rec.Begun = true, !p.Tombstone()
	}
	return rec
}

// put writes a record.
func put(s *store.FSStore, r store.Record) error {
	_, err := s.Write(r)
	return err
}

// one writes a record and returns it as written.
func one(s *store.FSStore, r store.Record) (store.Record, error) {
	out, err := s.Write(r)
	if err != nil {
		return store.Record{}, err
	}
	return out[0], nil
}

// answered makes a record with a new result.
func answered(rec store.Record, p store.Phase, s workload.State) store.Record {
	rec = rec.Clone()
	rec.Phase = p
	rec.Result = &workload.Result{State: s, Created: rec.Accepted, Data: json.RawMessage(`{"volume_id": "x"}`)}
	return rec
}

// fastDir is a folder in memory, for tests that count steps, not for those that need a disk.
func fastDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "croft-store-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return filepath.Join(dir, "store")
}

// damage flips a bit in the middle of a file.
func damage(t testing.TB, root, name string) {
	t.Helper()
	path := filepath.Join(root, name)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 4
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// stuckAt makes the next fsync wait, once it is armed.
func stuckAt(mu *sync.Mutex, armed *bool, stuck, free chan struct{}) atomicfile.Hook {
	return func(p atomicfile.Point) error {
		mu.Lock()
		now := *armed && p.Op == atomicfile.Sync && !p.After
		if now {
			*armed = false
		}
		mu.Unlock()
		if now {
			close(stuck)
			<-free
		}
		return nil
	}
}

func newDisk() *faulty.Disk { return faulty.New() }

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func writeFile(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func removeFile(t testing.TB, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func isFolder(t testing.TB, path string) bool {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.IsDir()
}

// content is the content of all files below a folder but the lock file.
func content(t testing.TB, root string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fmt.Fprintln(&b, path)
		if !d.IsDir() && d.Name() != "lock" {
			b.Write(readFile(t, path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
