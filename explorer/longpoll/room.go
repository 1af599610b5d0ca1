package longpoll

import (
	"context"
	"time"

	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
)

// polls limits the long polls that wait, of all nodes; the operator sets their total (max-polls).
// Half of them are reserved for polls from the source of their node's signed writes.
var polls = limit.Limit{Name: "explorer-polls", Per: "source", Each: 12500, Total: 50000, Kept: 25000}

// Limit is the limit of waiting polls for a total, with or without a limit of each source.
func Limit(total int, ofSource bool) limit.Limit {
	l := polls
	l.Total, l.Kept, l.Each = int64(total), int64(total/2), 0
	if ofSource {
		l.Each = int64(max(1, total/4))
	}
	return l
}

// Room lets polls wait, as many as its limit allows.
type Room struct {
	waiters *Waiters
	homes   *Homes
	shares  *limit.Shares
}

// NewRoom makes a room.
func NewRoom(w *Waiters, h *Homes, l limit.Limit) *Room {
	return &Room{waiters: w, homes: h, shares: l.Shares()}
}

// Taken is the number of places that are taken.
func (r *Room) Taken() int64 { return r.shares.Total() }

// Poll is one request that may wait.
type Poll struct {
	Node, Source string
	// Most is the longest wait.
	Most time.Duration
	// Look reports whether there is an answer. It is called before the wait and after each change
	// of the node.
	Look func() bool
	// Begin is called before the wait with the time of its end.
	Begin func(end time.Time)
}

// Wait returns when p.Look finds something, the time is over, or the explorer
// stops. Busy when too many wait; Transient when ctx ends first.
func (r *Room) Wait(ctx context.Context, p *Poll) error {
	if found := p.Look(); found || p.Most <= 0 {
		return nil
	}
	own, take := r.homes.own(p.Node, p.Source), r.shares.Take
	if own {
		take = r.shares.TakeKnown
	}
	give, err := take(p.Source, 1)
	if err != nil {
		return node.Errorf(node.Busy, "cannot wait: %w", err)
	}
	defer give()
	end := time.Now().Add(p.Most)
	p.Begin(end)
	for {
		// First add the waiter, then look: a push between the two isn't missed.
		one := r.waiters.add(p.Node, own)
		if p.Look() {
			r.waiters.remove(one)
			return nil
		}
		if !r.waiters.sleep(ctx, one, time.Until(end)) {
			return node.WithKind(node.Transient, ctx.Err())
		}
		if one.over {
			return nil
		}
	}
}
