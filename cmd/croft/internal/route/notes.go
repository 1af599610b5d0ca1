package route

import (
	"fmt"
	"sync"
	"time"

	"github.com/croft-edge/croft/cmd/croft/internal/lifetime"
	"github.com/croft-edge/croft/cmd/croft/internal/memory"
	"github.com/croft-edge/croft/cmd/croft/internal/render"
	"github.com/croft-edge/croft/pkg/explorer"
)

// notes are the addresses of nodes and the last answers of explorers, in the file at path;
// nothing is noted where path is empty.
type notes struct {
	path     string
	explorer string
	now      func() time.Time
	// writing is held while the file is read and written.
	writing sync.Mutex
}

// answered notes an answer of the explorer, and where it shows nodes. It is for later
// only: a note that can't be written is no failure.
func (n *notes) answered(nodes ...explorer.Node) {
	if n.path == "" {
		return
	}
	n.writing.Lock()
	defer n.writing.Unlock()
	_ = memory.Note(n.path, func(m *memory.Memory) {
		m.Explorers[n.explorer] = n.now()
		for _, one := range nodes {
			m.Doors[one.NodeID] = memory.Door{Address: one.Door, Told: n.now()}
		}
	})
}

// doors are the noted addresses, by node ID.
func (n *notes) doors() map[string]memory.Door {
	if n.path == "" {
		return map[string]memory.Door{}
	}
	return memory.Read(n.path).Doors
}

// lastAnswer says when the explorer answered last, as in " (it answered last 5m ago)".
func (n *notes) lastAnswer() string {
	if n.path == "" {
		return ""
	}
	last, known := memory.Read(n.path).Explorers[n.explorer]
	if !known {
		return " (it has never answered this croft)"
	}
	return fmt.Sprintf(" (it answered last at %s, %s ago)", render.Clock(last), lifetime.Text(max(0, n.now().Sub(last)).Truncate(time.Second)))
}
