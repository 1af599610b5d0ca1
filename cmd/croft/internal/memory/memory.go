// Package memory keeps addresses that a user's croft has learnt, for when the explorer is
// away: each node's own address, and when each explorer last answered.
// Nothing in it is trusted: the server at an address has to prove the node's key.
package memory

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/atomicfile"
)

// maxNodes is the number of nodes that are kept: those with the newest notes.
const maxNodes = 1000

// Door is the newest address at which users reach a node; empty when it is reached
// through the explorer only.
type Door struct {
	Address string    `json:"address"`
	Told    time.Time `json:"told"`
}

// Memory is the file's content.
type Memory struct {
	Doors map[string]Door `json:"doors"`
	// Explorers are the last answers of explorers, by URL.
	Explorers map[string]time.Time `json:"explorers"`
}

// Read reads the file. One that isn't there, or isn't one, is empty.
func Read(path string) Memory {
	m := Memory{}
	if content, err := os.ReadFile(path); err != nil || json.Unmarshal(content, &m) != nil {
		m = Memory{}
	}
	if m.Doors == nil {
		m.Doors = map[string]Door{}
	}
	if m.Explorers == nil {
		m.Explorers = map[string]time.Time{}
	}
	return m
}

// Note reads the file, applies change, and writes it whole. Of two concurrent notes one may
// be lost; its addresses are then learnt again.
func Note(path string, change func(*Memory)) error {
	m := Read(path)
	change(&m)
	m.trim()
	content, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return errors.Wrap(err, "cannot save the addresses of nodes")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return errors.Wrap(err, "cannot save the addresses of nodes")
	}
	return errors.Wrap(atomicfile.WriteFile(path, append(content, '\n'), 0o600), "cannot save the addresses of nodes")
}

// trim drops the nodes with the oldest notes.
func (m *Memory) trim() {
	ids := slices.SortedFunc(maps.Keys(m.Doors), func(a, b string) int { return m.Doors[b].Told.Compare(m.Doors[a].Told) })
	for _, id := range ids[min(len(ids), maxNodes):] {
		delete(m.Doors, id)
	}
}
