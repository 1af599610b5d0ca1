package memory_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/croft-edge/croft/cmd/croft/internal/memory"
)

func TestNote(t *testing.T) {
	path := filepath.Join(t.TempDir(), "croft", "nodes.json")
	if m := memory.Read(path); len(m.Doors) != 0 || len(m.Explorers) != 0 {
		t.Errorf("before: %+v", m)
	}
	at := time.Unix(1e9, 0).UTC()
	note := func(id string, told time.Time) {
		t.Helper()
		if err := memory.Note(path, func(m *memory.Memory) { m.Doors[id] = memory.Door{Address: id + ":1", Told: told} }); err != nil {
			t.Fatal(err)
		}
	}
	note("a", at)
	note("b", at)
	if m := memory.Read(path); m.Doors["a"].Address != "a:1" || !m.Doors["b"].Told.Equal(at) {
		t.Errorf("after: %+v", m)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("its mode is %v, %v", info.Mode(), err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	note("c", at)
	if m := memory.Read(path); len(m.Doors) != 1 {
		t.Errorf("after a damaged one: %+v", m)
	}
}

func TestOldestNodesAreDropped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nodes.json")
	err := memory.Note(path, func(m *memory.Memory) {
		for i := range 1200 {
			m.Doors[fmt.Sprint(i)] = memory.Door{Told: time.Unix(int64(i), 0)}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	m := memory.Read(path)
	if _, kept := m.Doors["1199"]; !kept || len(m.Doors) != 1000 {
		t.Errorf("%d are kept, the newest %t", len(m.Doors), kept)
	}
}
