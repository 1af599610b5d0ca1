package deploy

import (
	"context"
	"time"

	"github.com/croft-edge/croft/cmd/croft/internal/lifetime"
	"github.com/croft-edge/croft/pkg/explorer"
)

// presenceAge is how long the explorer's answer about a node is good for.
const presenceAge = 15 * time.Second

// shower shows nodes.
type shower interface {
	Node(ctx context.Context, id string) (explorer.Node, error)
}

// presence knows which nodes are online, by the explorer's newest answers.
type presence struct {
	explorer shower
	now      func() time.Time
	nodes    map[string]explorer.Node
	asked    map[string]time.Time
}

func newPresence(e shower, now func() time.Time) *presence {
	return &presence{explorer: e, now: now, nodes: map[string]explorer.Node{}, asked: map[string]time.Time{}}
}

// away says in brackets since when a node is offline; empty when it isn't, or
// when the explorer doesn't say.
func (p *presence) away(ctx context.Context, id string) string {
	n, ok := p.nodes[id]
	if !ok || p.now().Sub(p.asked[id]) > presenceAge {
		if fresh, err := p.explorer.Node(ctx, id); err == nil {
			n, p.nodes[id], p.asked[id] = fresh, fresh, p.now()
		}
	}
	if n.NodeID == "" || n.Online {
		return ""
	}
	return " (offline, " + lifetime.LastSeen(n.Updated, p.now()) + ")"
}
