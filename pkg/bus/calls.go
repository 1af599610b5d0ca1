package bus

import (
	"context"
	"reflect"
	"runtime/debug"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/bus/transport"
	"github.com/croft-edge/croft/pkg/node"
)

// replyTTL is how long a reply waits for a caller that gave no deadline.
const replyTTL = 5 * time.Minute

// calls runs the calls of a module's objects: it decides which requests may run, and
// answers them.
type calls struct {
	bus     Bus
	module  string
	boot    string
	log     zerolog.Logger
	objects *objects
	counts  *counts
}

// admit decodes a request that may be handled. It answers no refused request:
// nobody waits for the answer, or nobody may be answered.
func (c *calls) admit(frame []byte) (*request, bool) {
	req := &request{}
	if err := decode(frame, req); err != nil {
		c.refuse(err, "cannot read a request")
		return nil, false
	}
	if err := transport.CheckReplyKey(req.ReplyTo); err != nil {
		c.refuse(err, "a request was refused")
		return nil, false
	}
	if left, known := req.left(c.boot); known && left <= 0 {
		c.counts.expired.Add(1)
		c.log.Debug().Str("step", "bus").Str("call", c.callName(req)).Dur("late", -left).Msg("a request came too late")
		return nil, false
	}
	return req, true
}

func (c *calls) refuse(err error, message string) {
	c.counts.refused.Add(1)
	c.log.Warn().Str("step", "bus").Err(err).Str("module", c.module).Msg(message)
}

// callName is for people; its parts come from the sender.
func (c *calls) callName(req *request) string {
	name := queueName(c.module, req.Object) + "." + req.Method
	if len(name) > 200 {
		name = name[:200]
	}
	return name
}

// serve answers req with what its method returns. It also answers where code that isn't the bus's fails badly: the method, its error's text, or
// a refusal may panic or end the goroutine by runtime.Goexit, after which nothing but deferred functions runs.
func (c *calls) serve(req *request) {
	name := c.callName(req)
	var ran *method
	var rep *reply
	defer func() {
		if rep == nil {
			rep = c.broken(req, name, ran, recover())
		}
		c.answer(req, rep)
	}()
	m, args, err := c.find(req, name)
	if err != nil {
		rep = notCalled(req, err)
		return
	}
	ran = &m
	rep = c.run(req, name, m, args)
}

// find finds the method that req asks for, and decodes its arguments.
func (c *calls) find(req *request, name string) (method, []reflect.Value, error) {
	o, ok := c.objects.find(req.Object)
	if !ok {
		return method{}, nil, node.Errorf(node.Invalid, "cannot call %s: unknown object", name)
	}
	if o.refusal != nil {
		return method{}, nil, o.refusal()
	}
	m, ok := o.methods[req.Method]
	if !ok {
		return method{}, nil, node.Errorf(node.Invalid, "cannot call %s: unknown method", name)
	}
	if len(req.Inputs) > MaxArguments {
		return method{}, nil, node.Errorf(node.Invalid, "cannot call %s: at most %d arguments are allowed, %d came", name, MaxArguments, len(req.Inputs))
	}
	args, err := m.arguments(req.Inputs)
	if err != nil {
		return method{}, nil, node.Errorf(node.Invalid, "cannot call %s: %w", name, err)
	}
	return m, args, nil
}

// run calls m, and makes the reply of its results.
func (c *calls) run(req *request, name string, m method, args []reflect.Value) *reply {
	data, failure, err := m.call(args)
	if err != nil {
		c.log.Error().Str("step", "bus").Err(err).Str("call", name).Msg("cannot send a result")
		data = m.nothing()
		if failure == nil {
			failure = node.Errorf(node.Internal, "cannot send what %s returned: %w", name, err)
		}
	}
	return called(req, data, failure)
}

// broken is the reply to a request that failed badly: with that panic, nil for runtime.Goexit. m is the method that was called, nil for none.
func (c *calls) broken(req *request, name string, m *method, panicked any) *reply {
	c.counts.panicked.Add(1)
	event := c.log.Error().Str("step", "bus").Str("call", name).Bytes("stack", debug.Stack())
	if panicked == nil {
		event.Msg("a method ended its goroutine")
	} else {
		event.Interface("panic", panicked).Msg("a method panicked")
	}
	if m == nil {
		return notCalled(req, errPanicked(name))
	}
	return called(req, m.nothing(), errPanicked(name))
}

// called is the reply to a request whose method was run.
func called(req *request, data []byte, failure error) *reply {
	rep := &reply{ID: req.ID, Output: output{Data: data}}
	if failure != nil {
		rep.Output.Error = &callError{Message: errorText(failure), Kind: string(node.KindOf(failure))}
	}
	return rep
}

// notCalled is the reply to a request whose method wasn't run.
func notCalled(req *request, err error) *reply {
	text := errorText(err)
	return &reply{ID: req.ID, Error: &text, Kind: string(node.KindOf(err))}
}

// answer sends rep, also when the server is stopping.
func (c *calls) answer(req *request, rep *reply) {
	ttl := replyTTL
	if left, known := req.left(c.boot); known {
		if left <= 0 {
			c.counts.lost.Add(1)
			return
		}
		ttl = min(left+time.Second, replyTTL)
	}
	frame, err := encode(rep)
	if err != nil {
		frame, err = encode(notCalled(req, node.WithKind(node.Internal, err)))
	}
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), transport.SendTimeout)
		defer cancel()
		_, err = c.bus.Push(ctx, req.ReplyTo, frame, ttl)
	}
	if err != nil {
		c.counts.lost.Add(1)
		c.log.Warn().Str("step", "bus").Err(err).Str("call", c.callName(req)).Msg("cannot send a reply")
		return
	}
	c.counts.served.Add(1)
}

// errPanicked is all that a caller learns of a panic.
func errPanicked(name string) error {
	return node.WithKind(node.Internal, errors.Errorf("cannot finish %s: it failed badly, the node's log has more", name))
}
