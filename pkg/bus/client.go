package bus

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/pkg/bus/transport"
	"github.com/croft-edge/croft/pkg/node"
)

// Client calls objects on a bus, and reads their streams. It implements
// zbus.Client, may be used from many goroutines, and takes one reply queue and
// at most two connections for all its calls and streams together.
type Client struct {
	bus     Bus
	owned   bool
	options Options
	boot    string
	replies *replies
	skipped atomic.Uint64
}

var _ zbus.Client = (*Client)(nil)

// NewClient makes a client on b. Close it before b.
func NewClient(b Bus, options Options) *Client {
	options = options.withDefaults()
	return &Client{bus: b, options: options, boot: bootID(), replies: newReplies(b, options.Log)}
}

// Dial makes a client with its own connection, see Connect.
func Dial(ctx context.Context, url string, options Options) (*Client, error) {
	b, err := Connect(ctx, url, options)
	if err != nil {
		return nil, err
	}
	c := NewClient(b, options)
	c.owned = true
	return c, nil
}

// Close ends every call and, when the client was made by Dial, every stream.
func (c *Client) Close() error {
	if first := c.replies.close(); first && c.owned {
		return c.bus.Close()
	}
	return nil
}

// Request implements zbus.Client.
//
// Deprecated: it is RequestContext without a context.
func (c *Client) Request(module string, object zbus.ObjectID, method string, args ...any) (*zbus.Response, error) {
	return c.RequestContext(context.Background(), module, object, method, args...)
}

// RequestContext implements zbus.Client. Unlike the bare library's it returns
// every failure as an error with a node.Kind, the method's own too, and never
// a nil response with a nil error.
func (c *Client) RequestContext(ctx context.Context, module string, object zbus.ObjectID, method string, args ...any) (*zbus.Response, error) {
	name := queueName(module, object) + "." + method
	if err := checkModule(module); err != nil {
		return nil, err
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.options.Timeout)
		defer cancel()
	}
	frame, id, err := c.request(ctx, object, method, args)
	if err != nil {
		return nil, node.Errorf(node.Invalid, "cannot call %s: %w", name, err)
	}
	answer, err := c.replies.expect(id)
	if err != nil {
		return nil, err
	}
	defer c.replies.forget(id)
	if err := ctx.Err(); err != nil {
		return nil, node.Errorf(node.Transient, "cannot call %s: %w", name, err)
	}
	if sent, err := c.bus.Push(ctx, queueName(module, object), frame, transport.QueueTTL); err != nil {
		if sent {
			return nil, node.Errorf(node.Unknown, "cannot tell whether %s was called: %w", name, err)
		}
		return nil, node.Errorf(node.Transient, "cannot call %s: %w", name, err)
	}
	rep, open, answered := await(ctx, answer)
	switch {
	case !answered:
		return nil, node.Errorf(node.Unknown, "cannot learn what %s answered: %w", name, ctx.Err())
	case !open:
		return nil, node.Errorf(node.Unknown, "cannot learn what %s answered: the client was closed", name)
	}
	return response(rep)
}

// await waits for the answer to a sent call; open is false when the client was
// closed. After ctx was cancelled it waits as long as node.AwaitAnswers says, not
// past the deadline.
func await(ctx context.Context, answer <-chan *reply) (rep *reply, open, answered bool) {
	select {
	case rep, open = <-answer:
		return rep, open, true
	case <-ctx.Done():
	}
	limit := node.AnswerLimit(ctx)
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline))
	}
	if limit <= 0 {
		return nil, false, false
	}
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case rep, open = <-answer:
		return rep, open, true
	case <-late.C:
		return nil, false, false
	}
}

// request encodes a call with its caller's deadline.
func (c *Client) request(ctx context.Context, object zbus.ObjectID, method string, args []any) ([]byte, string, error) {
	inputs, err := encodeArguments(args)
	if err != nil {
		return nil, "", err
	}
	req := request{ID: uuid.NewString(), Inputs: inputs, Object: object, ReplyTo: c.replies.key, Method: method}
	if deadline, ok := ctx.Deadline(); ok && c.boot != "" {
		if now := monotonicNow(); now > 0 {
			req.Boot, req.Deadline = c.boot, now+int64(time.Until(deadline))
		}
	}
	frame, err := encode(&req)
	return frame, req.ID, err
}

// response is the library's form of a reply without an error.
func response(rep *reply) (*zbus.Response, error) {
	if err := rep.failure(); err != nil {
		return nil, err
	}
	if rep.Output.Data != nil {
		if err := transport.CheckFrame(rep.Output.Data); err != nil {
			return nil, node.WithKind(node.Internal, err)
		}
	}
	return &zbus.Response{ID: rep.ID, Output: zbus.Output{Data: rep.Output.Data}}, nil
}

// Stream implements zbus.Client: it returns once the subscription is confirmed.
// The channel is closed when ctx ends.
func (c *Client) Stream(ctx context.Context, module string, object zbus.ObjectID, event string) (<-chan zbus.Event, error) {
	if err := checkModule(module); err != nil {
		return nil, err
	}
	return c.bus.Subscribe(ctx, channelName(module, object, event))
}

// Status implements zbus.Client: it lists module's objects and its workers' calls.
func (c *Client) Status(ctx context.Context, module string) (zbus.Status, error) {
	var status zbus.Status
	rep, err := c.RequestContext(ctx, module, statusObject(), "")
	if err != nil {
		return status, err
	}
	if err := decode(rep.Output.Data, &status); err != nil {
		return status, node.Errorf(node.Internal, "cannot read the status of %s: %w", module, err)
	}
	return status, nil
}

// SkippedEvent is called by a stub for an event that doesn't fit its stream's type.
func (c *Client) SkippedEvent(module string, object zbus.ObjectID, event string, err error) {
	c.skipped.Add(1)
	c.options.Log.Warn().Str("step", "bus").Err(err).Str("stream", channelName(module, object, event)).Msg("an event was skipped")
}

// ClientStats count the events and replies that a client didn't use.
type ClientStats struct {
	// SkippedEvents couldn't be decoded, DroppedEvents came faster than they
	// were read, Resumed streams were cut off and go on. Of all clients of the bus.
	SkippedEvents, DroppedEvents, Resumed uint64
	// StrayReplies came too late or for no call; UnreadableReplies can't be decoded.
	StrayReplies, UnreadableReplies uint64
}

// Stats returns the counts since the client was made.
func (c *Client) Stats() ClientStats {
	s := c.bus.Counters()
	return ClientStats{
		SkippedEvents: s.Skipped.Load() + c.skipped.Load(), DroppedEvents: s.Dropped.Load(), Resumed: s.Resumed.Load(),
		StrayReplies: c.replies.stray.Load(), UnreadableReplies: c.replies.unreadable.Load(),
	}
}
