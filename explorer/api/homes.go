package api

import (
	"net/http"
	"sync"

	"github.com/croft-edge/croft/pkg/limit"
)

// polls are the long polls that wait, of whoever; how many in all is the
// operator's to say (max-polls). Half of them are kept for nodes that poll from
// where they sign.
var polls = limit.Limit{Name: "explorer-polls", Per: "source", Each: 12500, Total: 50000, Kept: 25000}

// pollLimit is polls in a number that the policy says.
func (p Policy) pollLimit() limit.Limit {
	l := p.perSource(polls)
	l.Total, l.Kept = int64(p.MaxPolls), int64(p.MaxPolls/2)
	if l.Each > 0 {
		l.Each = int64(max(1, p.MaxPolls/4))
	}
	return l
}

// homes says from where each node has signed its last write, since the explorer
// began. There are no more of them than there are nodes.
type homes struct {
	mu   sync.Mutex
	from map[string]string
}

// signed notes where a node's write came from, once it is in the database.
func (h *homes) signed(nodeID, source string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.from == nil {
		h.from = map[string]string{}
	}
	h.from[nodeID] = source
}

// own reports whether a request about a node comes from where the node signs.
func (h *homes) own(r *http.Request, nodeID string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	from, ok := h.from[nodeID]
	return ok && from == source(r)
}
