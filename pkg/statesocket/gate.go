package statesocket

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/cosi-project/runtime/api/v1alpha1"
	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/croft-edge/croft/pkg/supervise"
)

// gate bounds the calls of all clients, and catches their panics.
type gate struct {
	limits         Limits
	watches, calls slots
	handlers       sync.WaitGroup
	log            zerolog.Logger
}

func newGate(limits Limits, log zerolog.Logger) *gate {
	return &gate{limits: limits, watches: make(slots, limits.Watches), calls: make(slots, limits.Calls), log: log}
}

// slots are taken by calls in progress.
type slots chan struct{}

// take takes a slot, or answers why there is none.
func (s slots) take(what string) error {
	select {
	case s <- struct{}{}:
		return nil
	default:
		return status.Errorf(codes.ResourceExhausted, "cannot begin another %s: at most %d are allowed at a time, of all clients; end one, or try again later", what, cap(s))
	}
}

func (s slots) free() { <-s }

// call serves a call that has one answer.
func (g *gate) call(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (out any, err error) {
	if err := g.calls.take("call"); err != nil {
		return nil, err
	}
	defer g.calls.free()
	err = g.guarded(info.FullMethod, func() (err error) {
		out, err = handler(ctx, req)
		return err
	})
	return out, err
}

// stream serves a list or a watch. It returns when the client is stuck, which ends the stream's
// context, and with that the handler.
func (g *gate) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	s := &stream{ServerStream: ss, gate: g, stuck: make(chan string, 1)}
	done := make(chan error, 1)
	g.handlers.Go(func() {
		defer s.free()
		done <- g.guarded(info.FullMethod, func() error { return handler(srv, s) })
	})
	select {
	case err := <-done:
		return err
	case what := <-s.stuck:
		return status.Errorf(codes.ResourceExhausted, "cannot go on: the client hasn't %s for %s", what, g.limits.Stuck)
	}
}

// guarded makes an error of a panic: no client may end the process.
func (g *gate) guarded(method string, do func() error) error {
	return withoutPanic(supervise.Guard(g.log, "state socket "+method, do))
}

// withoutPanic is an error as a client may see it: without the text of a panic, which the log has.
func withoutPanic(err error) error {
	var panicked *supervise.Panic
	if errors.As(err, &panicked) {
		return status.Error(codes.Internal, "cannot answer: internal error of the node; its log has the details")
	}
	return err
}

// stream is one list or watch. The handler uses it from one goroutine.
type stream struct {
	grpc.ServerStream
	gate  *gate
	slots slots
	stuck chan string
}

// free gives the stream's slot back.
func (s *stream) free() {
	if s.slots != nil {
		s.slots.free()
	}
}

// within does what may wait for the client.
func (s *stream) within(what string, do func() error) error {
	timer := time.AfterFunc(s.gate.limits.Stuck, func() {
		select {
		case s.stuck <- what:
		default:
		}
	})
	defer timer.Stop()
	return do()
}

// RecvMsg reads the request, checks it, and takes a slot for what it asks for.
func (s *stream) RecvMsg(m any) error {
	if err := s.within("sent its request", func() error { return s.ServerStream.RecvMsg(m) }); err != nil {
		return err
	}
	all, what := s.gate.calls, "call"
	if watch, ok := m.(*v1alpha1.WatchRequest); ok {
		if err := checkWatch(watch); err != nil {
			return err
		}
		all, what = s.gate.watches, "watch"
	}
	if err := all.take(what); err != nil {
		return err
	}
	s.slots = all
	return nil
}

// checkWatch refuses what the library's server can't answer: it panics without options, and a watch of API
// version 0 would stay open and silent after its events were lost.
func checkWatch(req *v1alpha1.WatchRequest) error {
	if req.GetOptions() == nil {
		return status.Error(codes.InvalidArgument, "cannot watch: options are missing; they may be empty")
	}
	if req.GetApiVersion() < 1 {
		return status.Errorf(codes.InvalidArgument, "cannot watch: api_version is %d, which knows no lost events; it must be 1 or more", req.GetApiVersion())
	}
	return nil
}

// SendMsg sends an answer. A watch ends after an event that says that events were lost.
func (s *stream) SendMsg(m any) error {
	if err := s.within("read", func() error { return s.ServerStream.SendMsg(m) }); err != nil {
		return err
	}
	answer, ok := m.(*v1alpha1.WatchResponse)
	if !ok {
		return nil
	}
	for _, e := range answer.GetEvent() {
		if e.GetEventType() == v1alpha1.EventType_ERRORED {
			why := ""
			if strings.Contains(e.GetError(), "buffer overrun") { // the library's words
				why = " because the client was too slow"
			}
			return status.Errorf(codes.Aborted, "cannot go on: the watch has ended%s: %s", why, e.GetError())
		}
	}
	return nil
}
