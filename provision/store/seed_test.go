package store_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/store"
)

// seedFiles copies the seed's store from testdata, with or without its version header.
func seedFiles(t *testing.T, header bool) string {
	t.Helper()
	root := t.TempDir()
	names, err := filepath.Glob("testdata/seed/*")
	if err != nil || len(names) != 7 {
		t.Fatalf("testdata/seed: %v %v", names, err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !header {
			data = bytes.TrimPrefix(data, []byte(`"1.0.0"`))
		}
		if err := os.WriteFile(filepath.Join(root, filepath.Base(name)), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// The seed's files, of version 1.0.0 and of 0.0.0, are read as deployed reservations.
func TestSeedFilesAreReadable(t *testing.T) {
	for _, header := range []bool{true, false} {
		s, err := store.NewFSStore(seedFiles(t, header))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		all, err := s.List()
		if err != nil || len(all) != 7 {
			t.Fatalf("%d records, %v, want 7", len(all), err)
		}
		for _, r := range all {
			if r.Phase != store.Deployed || !r.Delivered || r.Reservation.DocumentVersion() != workload.V1 {
				t.Errorf("%s: phase %s, delivered %v, version %d", r.ID(), r.Phase, r.Delivered, r.Reservation.DocumentVersion())
			}
			if err := workload.Verify(r.Reservation); err != nil {
				t.Errorf("%s: the data isn't what was signed: %v", r.ID(), err)
			}
			if h, err := r.Reservation.Hash(); err != nil || h != r.Hash {
				t.Errorf("%s: hash %x, want %x (%v)", r.ID(), r.Hash, h, err)
			}
		}
		if q := s.Quarantined(); len(q) != 0 {
			t.Errorf("set aside: %v", q)
		}
	}
}

// A record read from the seed's file is from then on written in croft's format, data byte for byte.
func TestSeedFileIsRewritten(t *testing.T) {
	root := seedFiles(t, true)
	s, err := store.Open(store.Config{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	before, err := s.Record("1-1")
	if err != nil {
		t.Fatal(err)
	}
	next := before.Clone()
	next.Phase, next.End = store.Leaving, workload.StateDeleted
	if err := put(s, next); err != nil {
		t.Fatal(err)
	}
	s.Close()
	s, err = store.Open(store.Config{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	after, err := s.Record("1-1")
	if err != nil {
		t.Fatal(err)
	}
	if after.Phase != store.Leaving || !bytes.Equal(after.Reservation.Data, before.Reservation.Data) {
		t.Errorf("phase %s data %s, want leaving %s", after.Phase, after.Reservation.Data, before.Reservation.Data)
	}
	if err := workload.Verify(after.Reservation); err != nil {
		t.Error(err)
	}
}

// The seed's API: a second add fails; it sees deployed reservations only.
func TestCacheSeesDeployedOnly(t *testing.T) {
	now := time.Now()
	s := open(t, store.Config{Root: t.TempDir(), NewNode: true})
	r := volume("7-1", now, time.Hour)
	if err := s.Add(r); err != nil {
		t.Fatal(err)
	}
	if err := s.Add(r); node.KindOf(err) != node.Exist {
		t.Errorf("adding twice: %v, want Exist", err)
	}
	got, err := s.Get("7-1")
	if err != nil || !equalJSON(t, got, r) {
		t.Errorf("got %v, %v", got, err)
	}
	for phase, want := range map[store.Phase]bool{
		store.Intent: false, store.Retry: false, store.Deployed: true, store.Failed: false, store.Leaving: false, store.Ended: false,
	} {
		rec, err := s.Record("7-1")
		if err != nil {
			t.Fatal(err)
		}
		rec.Phase = phase
		if err := put(s, rec); err != nil {
			t.Fatal(err)
		}
		exists, err := s.Exists("7-1")
		if err != nil || exists != want {
			t.Errorf("in phase %s: exists is %v, %v, want %v", phase, exists, err, want)
		}
		if _, err := s.Get("7-1"); (err == nil) != want || err != nil && node.KindOf(err) != node.NotExist {
			t.Errorf("in phase %s: get says %v", phase, err)
		}
		if n := s.Counters().Volume; (n == 1) != want {
			t.Errorf("in phase %s: %d volumes are counted", phase, n)
		}
	}
	rec, _ := s.Record("7-1")
	rec.Phase = store.Deployed
	if err := put(s, rec); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove("7-1"); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove("7-1"); node.KindOf(err) != node.NotExist {
		t.Errorf("removing twice: %v, want NotExist", err)
	}
	if err := s.Add(r); err != nil {
		t.Errorf("adding what was removed: %v", err)
	}
}

func equalJSON(t *testing.T, a, b any) bool {
	t.Helper()
	x, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	y, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Equal(x, y)
}
