package bus

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/croft-edge/croft/pkg/bus/transport"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/threefoldtech/zbus"
)

// admit decodes a request that may be handled. What it refuses isn't answered:
// there is nobody who waits, or nobody who may be answered.
func (s *Server) admit(frame []byte) (*request, bool) {
	req := &request{}
	if err := decode(frame, req); err != nil {
		s.refuse(err, "a request can't be read")
		return nil, false
	}
	if err := transport.CheckReplyKey(req.ReplyTo); err != nil {
		s.refuse(err, "a request was refused")
		return nil, false
	}
	if left, known := req.left(s.boot); known && left <= 0 {
		s.expired.Add(1)
		s.options.Log.Debug().Str("step", "bus").Str("call", s.callName(req)).Dur("late", -left).Msg("a request came too late")
		return nil, false
	}
	return req, true
}

func (s *Server) refuse(err error, message string) {
	s.refused.Add(1)
	s.options.Log.Warn().Str("step", "bus").Str("module", s.module).Err(err).Msg(message)
}

// callName is for people; its parts come from the wire.
func (s *Server) callName(req *request) string {
	name := queueName(s.module, req.Object) + "." + req.Method
	if len(name) > 200 {
		name = name[:200]
	}
	return name
}

func (s *Server) handle(worker int, frame []byte) {
	req, ok := s.admit(frame)
	if !ok {
		return
	}
	s.setWorker(worker, zbus.WorkerBusy, "["+req.Object.String()+"]."+req.Method+"()")
	defer s.setWorker(worker, zbus.WorkerFree, "")
	s.answer(req, s.run(req))
}

func (s *Server) answerStatus(frame []byte) {
	req, ok := s.admit(frame)
	if !ok {
		return
	}
	data, err := encode(s.Status())
	if err != nil {
		s.answer(req, notCalled(req, node.WithKind(node.Internal, err)))
		return
	}
	s.answer(req, &reply{ID: req.ID, Output: output{Data: data}})
}

// run calls the method that req asks for. It always returns a reply.
func (s *Server) run(req *request) *reply {
	name := s.callName(req)
	s.mu.Lock()
	o, ok := s.objects[req.Object]
	s.mu.Unlock()
	if !ok {
		return notCalled(req, node.Errorf(node.Invalid, "cannot call %s: unknown object", name))
	}
	m, ok := o.methods[req.Method]
	if !ok {
		return notCalled(req, node.Errorf(node.Invalid, "cannot call %s: unknown method", name))
	}
	if len(req.Inputs) > MaxArguments {
		return notCalled(req, node.Errorf(node.Invalid, "cannot call %s: at most %d arguments are allowed, %d came", name, MaxArguments, len(req.Inputs)))
	}
	args, err := m.arguments(req.Inputs)
	if err != nil {
		return notCalled(req, node.Errorf(node.Invalid, "cannot call %s: %w", name, err))
	}
	rep := &reply{ID: req.ID}
	var failure error
	func() {
		defer func() {
			if p := recover(); p != nil {
				s.panicked.Add(1)
				s.options.Log.Error().Str("step", "bus").Str("call", name).Interface("panic", p).
					Bytes("stack", debug.Stack()).Msg("a method panicked")
				failure, rep.Output.Data = errPanicked(name), m.nothing()
			}
		}()
		rep.Output.Data, failure, err = m.call(args)
	}()
	if err != nil {
		s.options.Log.Error().Str("step", "bus").Str("call", name).Err(err).Msg("a result can't be sent")
		rep.Output.Data = m.nothing()
		if failure == nil {
			failure = node.Errorf(node.Internal, "cannot send what %s returned: %w", name, err)
		}
	}
	if failure != nil {
		rep.Output.Error = &callError{Message: errorText(failure), Kind: string(node.KindOf(failure))}
	}
	return rep
}

// notCalled is the reply to a request of which no method was run.
func notCalled(req *request, err error) *reply {
	text := errorText(err)
	return &reply{ID: req.ID, Error: &text, Kind: string(node.KindOf(err))}
}

// answer sends rep, also when the server is stopping.
func (s *Server) answer(req *request, rep *reply) {
	ttl := replyTTL
	if left, known := req.left(s.boot); known {
		if left <= 0 {
			s.lost.Add(1)
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
		_, err = s.bus.Push(ctx, req.ReplyTo, frame, ttl)
	}
	if err != nil {
		s.lost.Add(1)
		s.options.Log.Warn().Str("step", "bus").Str("call", s.callName(req)).Err(err).Msg("a reply can't be sent")
		return
	}
	s.served.Add(1)
}
