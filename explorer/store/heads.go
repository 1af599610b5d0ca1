package store

import (
	"context"
	"database/sql"
	"sync"
)

// heads holds the number of each node's newest change in memory, so that long polls read it without
// the disk. Only the writer changes it, after each commit.
type heads struct {
	// changed is called with each node's new head; it may be nil.
	changed func(nodeID string, head uint64)

	mu sync.RWMutex
	of map[string]uint64
}

func newHeads(changed func(nodeID string, head uint64)) *heads {
	return &heads{changed: changed, of: map[string]uint64{}}
}

// load reads the heads from the database.
func (h *heads) load(ctx context.Context, db *sql.DB) error {
	rows, err := db.QueryContext(ctx, `SELECT id, head FROM nodes`)
	if err != nil {
		return err
	}
	defer rows.Close()
	h.mu.Lock()
	defer h.mu.Unlock()
	for rows.Next() {
		var id string
		var head uint64
		if err := rows.Scan(&id, &head); err != nil {
			return err
		}
		h.of[id] = head
	}
	return rows.Err()
}

// head is the node's newest change; false when the node isn't registered.
func (h *heads) head(nodeID string) (uint64, bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	head, ok := h.of[nodeID]
	return head, ok
}

// count is the number of registered nodes.
func (h *heads) count() int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return len(h.of)
}

// committed stores the heads of a commit and reports each of them.
func (h *heads) committed(newer map[string]uint64) {
	h.mu.Lock()
	for id, head := range newer {
		h.of[id] = head
	}
	h.mu.Unlock()
	if h.changed == nil {
		return
	}
	for id, head := range newer {
		h.changed(id, head)
	}
}
