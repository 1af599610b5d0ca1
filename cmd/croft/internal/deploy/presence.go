package deploy

import (
	"context"
	"time"

	"github.com/croft-edge/croft/cmd/croft/internal/lifetime"
)

// nodeAge is how long what is known of a node is good for.
const nodeAge = 15 * time.Second

// away says in brackets since when a node is away; empty when it isn't, or
// when the explorer doesn't say.
func (d *Deployer) away(ctx context.Context, id string) string {
	n, ok := d.nodes[id]
	if !ok || d.Now().Sub(d.asked[id]) > nodeAge {
		if fresh, err := d.Explorer.Node(ctx, id); err == nil {
			n, d.nodes[id], d.asked[id] = fresh, fresh, d.Now()
		}
	}
	if n.NodeID == "" || n.Online {
		return ""
	}
	return " (offline, " + LastSeen(n.Updated, d.Now()) + ")"
}

// LastSeen says when a node was heard of; updated is in seconds since 1970.
func LastSeen(updated int64, now time.Time) string {
	if updated == 0 {
		return "never seen"
	}
	return "last seen " + lifetime.Text(max(0, now.Sub(time.Unix(updated, 0)))) + " ago"
}
