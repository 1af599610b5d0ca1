package state_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/cmd/croft/internal/state"
	"github.com/croft-edge/croft/pkg/workload"
)

func entry(name string) *state.Entry {
	return &state.Entry{
		Name: name, Type: workload.TypeVolume, Node: "n", ID: "7-1", Digest: "d", Duration: time.Hour,
		Document: `{"id":"","node_id":"n","user_id":"u","type":"volume","data":{"size": 1, "x":"<&>"},"created":"2030-01-01T00:00:00.000000001Z","duration":3600000000000}`,
	}
}

func TestSaveAndRead(t *testing.T) {
	path := state.Path(filepath.Join(t.TempDir(), "croft.yaml"), "blog")
	f, err := state.Read(path, "blog", "u")
	if err != nil || len(f.All()) != 0 {
		t.Fatalf("a state that isn't there: %v, %v", f, err)
	}
	f.Current["data"] = entry("data")
	f.Current["data"].Seen = state.Seen{Birth: "b", Sequence: 3, Created: time.Date(2030, 1, 1, 0, 0, 0, 7, time.UTC)}
	f.Current["old"] = entry("old")
	f.Leave("old", &workload.Deletion{Created: time.Unix(5, 6).UTC(), Signature: []byte{1}})
	if err := f.Save(); err != nil {
		t.Fatal(err)
	}
	again, err := state.Read(path, "blog", "u")
	if err != nil {
		t.Fatal(err)
	}
	if got := again.Current["data"]; got == nil || got.Document != entry("data").Document || got.Seen != f.Current["data"].Seen || got.ID != "7-1" {
		t.Errorf("read %+v", got)
	}
	if len(again.Leaving) != 1 || again.Leaving[0].Deletion == nil || again.Leaving[0].Name != "old" {
		t.Errorf("leaving: %+v", again.Leaving)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("beside the state there is %v (%v)", left, err)
	}
}

func TestReservationOfAnEntry(t *testing.T) {
	e := entry("data")
	e.Deletion = &workload.Deletion{Created: time.Unix(1, 0)}
	r, err := e.Reservation()
	if err != nil || r.ID != "7-1" || r.Deletion != e.Deletion || r.Created.Nanosecond() != 1 {
		t.Errorf("got %+v, %v", r, err)
	}
	e.Document = `{`
	if _, err := e.Reservation(); err == nil || !strings.Contains(err.Error(), `"data"`) {
		t.Errorf("a damaged document: %v", err)
	}
}

func TestReadRefuses(t *testing.T) {
	for content, says := range map[string]string{
		``:                               "cannot read state",
		`{`:                              "cannot read state",
		`{"version":1,"project":"p"`:     "cannot read state",
		`{"version":2,"project":"blog"}`: "version is 2, must be 1",
		`{"version":1,"project":"shop","user":"u"}`:                              `of project "shop"`,
		`{"version":1,"project":"blog","user":"v"}`:                              "of user v",
		`{"version":1,"project":"blog","user":"u","more":1}`:                     "more",
		`{"version":1,"project":"blog","user":"u","current":{"a":null}}`:         `"a"`,
		`{"version":1,"project":"blog","user":"u","current":{"a":{"name":"b"}}}`: `"a"`,
	} {
		path := filepath.Join(t.TempDir(), "blog.json")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := state.Read(path, "blog", "u"); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", content, err, says)
		}
	}
	dir := filepath.Join(t.TempDir(), "blog.json")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := state.Read(dir, "blog", "u"); err == nil {
		t.Error("a folder is read as a state")
	}
}

func TestSaveFailsWhenTheFolderIsAFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, state.Folder), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f := &state.File{}
	if got, err := state.Read(state.Path(filepath.Join(dir, "croft.yaml"), "p"), "p", "u"); err == nil {
		f = got
	}
	if err := f.Save(); err == nil {
		t.Error("saved into a file")
	}
}

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), state.Folder, "blog.json")
	first, err := state.Hold(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := state.Hold(path); err == nil || !strings.Contains(err.Error(), "another croft is at work") {
		t.Errorf("the second one got the lock: %v", err)
	}
	if other, err := state.Hold(filepath.Join(filepath.Dir(path), "shop.json")); err != nil {
		t.Errorf("another project: %v", err)
	} else if err := other.Unlock(); err != nil {
		t.Error(err)
	}
	if err := first.Unlock(); err != nil {
		t.Fatal(err)
	}
	again, err := state.Hold(path)
	if err != nil {
		t.Fatalf("the lock isn't given back: %v", err)
	}
	if err := again.Unlock(); err != nil {
		t.Fatal(err)
	}
}

func TestLeaveAndGone(t *testing.T) {
	f := &state.File{Current: map[string]*state.Entry{"a": entry("a"), "b": entry("b"), "c": entry("c")}}
	a := f.Leave("a", &workload.Deletion{})
	b := f.Leave("b", &workload.Deletion{})
	f.Gone(a)
	f.Gone(a)
	if len(f.Leaving) != 1 || f.Leaving[0] != b || len(f.Current) != 1 {
		t.Errorf("leaving %v, current %v", f.Leaving, f.Current)
	}
	if all := f.All(); len(all) != 2 || all[0].Name != "c" || all[1] != b {
		t.Errorf("all: %v", all)
	}
}
