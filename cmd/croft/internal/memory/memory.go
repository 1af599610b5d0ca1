// Package memory keeps what a user's croft has learnt of where things are, for when
// the explorer is away: each node's own address, and when each explorer last answered.
// Nothing in it is trusted: who answers at an address has to show the node's key.
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

// maxNodes is how many nodes are remembered: those that were asked for last.
const maxNodes = 1000

// Door is where a node said last that users reach it; empty for nowhere but through
// the explorer.
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

// Note reads the file, has change change it, and writes it whole. Of two that do it at
// a time one may be lost, which costs what it had learnt.
func Note(path string, change func(*Memory)) error {
	m := Read(path)
	change(&m)
	m.trim()
	content, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return errors.Wrap(err, "cannot note where nodes are")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return errors.Wrap(err, "cannot note where nodes are")
	}
	return errors.Wrap(atomicfile.WriteFile(path, append(content, '\n'), 0o600), "cannot note where nodes are")
}

// trim forgets the nodes that were told of first.
func (m *Memory) trim() {
	ids := slices.SortedFunc(maps.Keys(m.Doors), func(a, b string) int { return m.Doors[b].Told.Compare(m.Doors[a].Told) })
	for _, id := range ids[min(len(ids), maxNodes):] {
		delete(m.Doors, id)
	}
}
