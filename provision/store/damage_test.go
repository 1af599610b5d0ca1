package store_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/versioned"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/store"
)

// three makes a store with the records 1-1, 2-1 and 3-1, closed.
func three(t *testing.T) string {
	t.Helper()
	root := fastDir(t)
	s := open(t, store.Config{Root: root})
	for _, id := range []string{"1-1", "2-1", "3-1"} {
		finish(t, s, answered(record(volume(id, time.Now(), time.Hour), store.Intent), store.Deployed, workload.StateOK))
	}
	s.Close()
	return root
}

// Every kind of damage costs one record and is reported until the operator has taken the
// file away; the node goes on.
func TestDamage(t *testing.T) {
	rewrite := func(edit func(data []byte) []byte) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, edit(data), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, tt := range []struct {
		name  string
		spoil func(t *testing.T, path string)
		cause string
	}{
		{"empty", rewrite(func([]byte) []byte { return nil }), "JSON"},
		{"cut in the middle", rewrite(func(b []byte) []byte { return b[:len(b)/2] }), "cut short"},
		{"without its last byte", rewrite(func(b []byte) []byte { return b[:len(b)-1] }), "cut short"},
		{"a flipped bit", rewrite(func(b []byte) []byte { b[len(b)/2] ^= 1; return b }), "checksum"},
		{"a flipped bit in the checksum", rewrite(func(b []byte) []byte { b[12] ^= 1; return b }), "checksum"},
		{"zeroes", rewrite(func(b []byte) []byte { return make([]byte, len(b)) }), "JSON"},
		{"a newer major version, by accident", rewrite(func(b []byte) []byte { b[1] = '4'; return b }), "checksum"},
		{"an older major version, by accident", rewrite(func(b []byte) []byte { b[1] = '2'; return b }), "checksum"},
		{"an older version that never was", rewrite(func([]byte) []byte { return []byte(`"1.5.0"{}`) }), "version"},
		{"the seed's, of another reservation", rewrite(func([]byte) []byte { return []byte(`"1.0.0"{"id":"9-9"}`) }), "9-9"},
		{"the seed's, torn", rewrite(func([]byte) []byte { return []byte(`"1.0.0"{"id":"2-1","node_`) }), "JSON"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := three(t)
			tt.spoil(t, filepath.Join(root, "2-1"))
			damaged, err := os.ReadFile(filepath.Join(root, "2-1"))
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // it is reported again after a restart
				s := open(t, store.Config{Root: root})
				q := s.Quarantined()
				if len(q) != 1 || q[0].ID != "2-1" || !strings.Contains(q[0].Cause, tt.cause) {
					t.Fatalf("set aside: %+v, want 2-1 because of %q", q, tt.cause)
				}
				if kept, err := os.ReadFile(filepath.Join(root, q[0].Name)); err != nil || !bytes.Equal(kept, damaged) {
					t.Errorf("the damaged file isn't kept as it was: %v", err)
				}
				if all, _ := s.List(); ids(all) != "1-1 3-1" {
					t.Errorf("records %s, want 1-1 3-1", ids(all))
				}
				s.Close()
			}
			if err := os.RemoveAll(filepath.Join(root, "quarantine")); err != nil {
				t.Fatal(err)
			}
			s := open(t, store.Config{Root: root})
			if q := s.Quarantined(); len(q) != 0 {
				t.Errorf("after the operator took it away: %v", q)
			}
		})
	}
}

// A record that is written again after its damage can be damaged again.
func TestDamageTwice(t *testing.T) {
	root := three(t)
	for i := range 3 {
		damage(t, root, "2-1")
		s := open(t, store.Config{Root: root})
		if q := s.Quarantined(); len(q) != i+1 || q[i].ID != "2-1" {
			t.Fatalf("after damage %d: %v", i+1, q)
		}
		finish(t, s, answered(record(volume("2-1", time.Now(), time.Hour), store.Intent), store.Deployed, workload.StateOK))
		s.Close()
	}
}

// The number of a damaged result, or of a damaged birth file, isn't given again.
func TestDamageReusesNoNumber(t *testing.T) {
	for _, name := range []string{"3-1", "meta/birth"} {
		root := three(t)
		s := open(t, store.Config{Root: root})
		last, err := s.Record("3-1")
		if err != nil {
			t.Fatal(err)
		}
		birth := s.Birth().ID
		s.Close()
		damage(t, root, name)
		s = open(t, store.Config{Root: root})
		next := finish(t, s, answered(record(volume("4-1", time.Now(), time.Hour), store.Intent), store.Deployed, workload.StateOK))
		if next.Result.Birth == birth && next.Result.Sequence <= last.Result.Sequence {
			t.Errorf("%s damaged: number %d of birth %s is given again", name, next.Result.Sequence, birth)
		}
	}
}

// Damage to the node's own state: the store falls back to safe values.
func TestDamagedMeta(t *testing.T) {
	for name, safe := range map[string]func(s *store.FSStore) bool{
		"meta/cursor": func(s *store.FSStore) bool { return s.Cursor().Change == 0 },
		"meta/clock":  func(s *store.FSStore) bool { return s.Mark().Time.IsZero() },
		"meta/birth":  func(s *store.FSStore) bool { return !s.AcceptsOlder() && s.Birth().ID != "" },
	} {
		root := fastDir(t)
		s := open(t, store.Config{Root: root, NewNode: true})
		for _, d := range life()[:7] {
			if err := d.do(s); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.AcceptOlder(); err != nil {
			t.Fatal(err)
		}
		s.Close()
		damage(t, root, name)
		s = open(t, store.Config{Root: root, NewNode: true})
		if !safe(s) {
			t.Errorf("%s: cursor %v, mark %v, accepts older %v", name, s.Cursor(), s.Mark(), s.AcceptsOlder())
		}
		if q := s.Quarantined(); len(q) != 1 || q[0].ID != "" {
			t.Errorf("%s: set aside %v", name, q)
		}
		if _, err := s.Record("1-1"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		s.Close()
	}
}

// A store that a newer croft has written isn't opened in part: its records would be taken
// for damaged, and their workloads for orphans.
func TestNewerFilesAreRefused(t *testing.T) {
	root := three(t)
	newer := store.SealAs(versioned.Version{Major: 4}, []byte(`{"reservation":"in another way"}`))
	if err := os.WriteFile(filepath.Join(root, "2-1"), newer, 0o600); err != nil {
		t.Fatal(err)
	}
	before := listing(t, root)
	_, err := store.Open(store.Config{Root: root})
	wantKind(t, "a newer record", err, node.Refused)
	if err == nil || !strings.Contains(err.Error(), "2-1") || !strings.Contains(err.Error(), "4.0.0") {
		t.Errorf("the error doesn't say which file and version: %v", err)
	}
	if after := listing(t, root); !slices.Equal(before, after) {
		t.Errorf("the store was changed: %v, was %v", after, before)
	}
	// A minor version, which only adds to version 3, can be read.
	root = three(t)
	file, err := os.ReadFile(filepath.Join(root, "2-1"))
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := bytes.Cut(bytes.TrimSuffix(file, []byte("\n")), []byte("\n"))
	body = append(bytes.TrimSuffix(body, []byte("}")), `,"added_later":1}`...)
	if err := os.WriteFile(filepath.Join(root, "2-1"), store.SealAs(versioned.Version{Major: 3, Minor: 7}, body), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, store.Config{Root: root})
	if _, err := s.Record("2-1"); err != nil || len(s.Quarantined()) != 0 {
		t.Errorf("version 3.7.0: %v, set aside %v", err, s.Quarantined())
	}
}

// A foreign file is set aside when its name could be an object's by mistake, and otherwise
// left in place.
func TestForeignFiles(t *testing.T) {
	root := three(t)
	for _, name := range []string{"notes.txt", "README", "01-1", "1-1.bak"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(root, "7-1"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := open(t, store.Config{Root: root})
	if all, _ := s.List(); ids(all) != "1-1 2-1 3-1" {
		t.Errorf("records %s", ids(all))
	}
	if _, err := os.Stat(filepath.Join(root, "README")); err != nil {
		t.Errorf("a file whose name can't be an object's was touched: %v", err)
	}
	if n := len(s.Quarantined()); n != 4 {
		t.Errorf("%d files are said, want 4: %v", n, s.Quarantined())
	}
}

// listing returns the paths of a folder and everything below it.
func listing(t *testing.T, root string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
		out = append(out, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
