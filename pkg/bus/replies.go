package bus

import (
	"context"
	"errors"

	"github.com/croft-edge/croft/pkg/bus/transport"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/supervise"
)

// expect registers a call before it is sent, and starts reading replies with
// the first one.
func (c *Client) expect(id string) (<-chan *reply, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, node.Errorf(node.Transient, "cannot call: the client is closed")
	}
	if c.stop == nil {
		ctx, stop := context.WithCancel(context.Background())
		c.stop, c.done = stop, make(chan struct{})
		go func() {
			defer close(c.done)
			defer c.endCalls()
			_ = supervise.Keep(ctx, c.options.Log, "bus replies", supervise.DefaultBackoff(), c.readReplies)
		}()
	}
	answer := make(chan *reply, 1)
	c.waiting[id] = answer
	return answer, nil
}

func (c *Client) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, id)
}

// readReplies hands each reply to the call with its ID, until ctx ends.
func (c *Client) readReplies(ctx context.Context) error {
	p := c.bus.Pull(c.replies)
	defer p.Close()
	retry := transport.NewBackoff()
	for ctx.Err() == nil {
		frame, err := p.Next(ctx)
		if err != nil {
			if ctx.Err() != nil {
				break
			}
			if retry.First() {
				c.options.Log.Warn().Str("step", "bus").Err(err).Msg("replies can't be read, trying again")
			}
			if transport.Pause(ctx, retry.Next()) != nil {
				break
			}
			continue
		}
		retry.Reset()
		c.deliver(frame)
	}
	return ctx.Err()
}

func (c *Client) deliver(frame []byte) {
	rep := &reply{}
	if err := decode(frame, rep); err != nil {
		c.unreadable.Add(1)
		c.options.Log.Warn().Str("step", "bus").Err(err).Msg("a reply can't be read")
		id := replyID(frame)
		if id == "" {
			return
		}
		text := "cannot read the reply: " + err.Error()
		rep = &reply{ID: id, Error: &text, Kind: string(node.Unknown)}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	answer, ok := c.waiting[rep.ID]
	if !ok {
		c.stray.Add(1)
		return
	}
	delete(c.waiting, rep.ID)
	answer <- rep
}

// replyID is the ID of a reply of which the rest can't be decoded, so that its
// call needn't wait for its deadline.
func replyID(frame []byte) string {
	const start = "\xa2ID\xd9\x24"
	if len(frame) < 1+len(start)+36 || string(frame[1:1+len(start)]) != start {
		return ""
	}
	id := string(frame[1+len(start) : 1+len(start)+36])
	if transport.CheckReplyKey(id) != nil {
		return ""
	}
	return id
}

// endCalls fails every call that still waits.
func (c *Client) endCalls() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, answer := range c.waiting {
		close(answer)
		delete(c.waiting, id)
	}
}

// ended reports whether err says no more than that a context is over.
func ended(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
