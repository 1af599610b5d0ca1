package longpoll

import "sync"

// Homes remembers the source of each node's last signed write since the explorer started.
// It has at most one entry for each registered node.
type Homes struct {
	mu   sync.Mutex
	from map[string]string
}

// NewHomes makes an empty set.
func NewHomes() *Homes { return &Homes{from: map[string]string{}} }

// Signed notes the source of a node's write, once the write is in the database.
func (h *Homes) Signed(nodeID, source string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.from[nodeID] = source
}

// own reports whether a poll of the node comes from the source of its last signed write.
func (h *Homes) own(nodeID, source string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	from, ok := h.from[nodeID]
	return ok && from == source
}
