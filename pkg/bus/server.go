package bus

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/pkg/bus/transport"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/supervise"
)

// Server serves the objects of one module.
type Server struct {
	bus     Bus
	module  string
	options Options
	objects *objects
	workers *workers
	calls   *calls
	streams *streams
	counts  *counts
}

// NewServer makes a server for the module of that name.
func NewServer(b Bus, module string, options Options) (*Server, error) {
	if err := options.Validate(); err != nil {
		return nil, err
	}
	if err := checkModule(module); err != nil {
		return nil, err
	}
	options = options.withDefaults()
	known, counted := newObjects(module), &counts{}
	return &Server{
		bus: b, module: module, options: options, objects: known, workers: &workers{}, counts: counted,
		calls:   &calls{bus: b, module: module, boot: bootID(), log: options.Log, objects: known, counts: counted},
		streams: &streams{bus: b, module: module, log: options.Log, counts: counted},
	}, nil
}

// Run serves until ctx ends, then takes no more requests, finishes those it
// has begun and returns nil; it fails when they take longer than
// Options.Grace. Trouble with the bus is logged and retried. Run may be called
// again when it has returned.
func (s *Server) Run(ctx context.Context) error {
	queues, err := s.objects.begin()
	if err != nil {
		return err
	}
	defer s.objects.end()
	s.workers.reset(s.options.Workers)
	status := queueName(s.module, statusObject())
	s.bus.Serve(append(slices.Clone(queues), status)...)

	var calls sync.WaitGroup
	var rest sync.WaitGroup
	s.streams.start(ctx, s.objects, &rest)
	// The status is served separately, so that it answers while all workers are busy.
	rest.Go(func() {
		_ = supervise.Keep(ctx, s.options.Log, "bus status", supervise.DefaultBackoff(), func(ctx context.Context) error {
			s.serve(ctx, []string{status}, s.handleStatus)
			return ctx.Err()
		})
	})
	s.serveWith(ctx, queues, &calls)
	rest.Wait()
	return s.finish(&calls)
}

// finish waits for the running calls.
func (s *Server) finish(calls *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() {
		calls.Wait()
		close(done)
	}()
	timer := time.NewTimer(s.options.Grace)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
		return node.Errorf(node.Busy, "cannot stop the server of %s in %s: %s", s.module, s.options.Grace, strings.Join(s.workers.busy(), ", "))
	}
}

// serveWith takes a request only when a worker is free for it: requests wait on
// the bus, where they survive this process.
func (s *Server) serveWith(ctx context.Context, queues []string, calls *sync.WaitGroup) {
	p := s.bus.Pull(queues...)
	defer p.Close()
	work, free := s.startWorkers(calls)
	defer close(work)
	retry := transport.NewBackoff()
	for {
		select {
		case <-ctx.Done():
			return
		case <-free:
		}
		frame, ok := s.next(ctx, p, retry)
		if !ok {
			return
		}
		work <- frame
	}
}

// startWorkers starts goroutines that live until work is closed: their stacks
// grow once. free has an element for each idle one.
func (s *Server) startWorkers(calls *sync.WaitGroup) (work chan<- []byte, free <-chan struct{}) {
	n := s.options.Workers
	frames, waiting := make(chan []byte, n), make(chan struct{}, n)
	for worker := range n {
		waiting <- struct{}{}
		s.startWorker(worker, calls, frames, waiting)
	}
	return frames, waiting
}

func (s *Server) startWorker(worker int, calls *sync.WaitGroup, frames <-chan []byte, waiting chan<- struct{}) {
	calls.Go(func() {
		supervise.Do(s.options.Log, "bus worker", func() { s.work(worker, calls, frames, waiting) })
	})
}

// work is a worker. One whose goroutine a method ends, by runtime.Goexit, is started again.
func (s *Server) work(worker int, calls *sync.WaitGroup, frames <-chan []byte, waiting chan<- struct{}) {
	finished := false
	defer func() {
		if !finished {
			waiting <- struct{}{}
			s.startWorker(worker, calls, frames, waiting)
		}
	}()
	for frame := range frames {
		supervise.Do(s.options.Log, "bus worker", func() { s.handle(worker, frame) })
		waiting <- struct{}{}
	}
	finished = true
}

// serve handles the requests of queues one after the other.
func (s *Server) serve(ctx context.Context, queues []string, handle func(frame []byte)) {
	p := s.bus.Pull(queues...)
	defer p.Close()
	retry := transport.NewBackoff()
	for {
		frame, ok := s.next(ctx, p, retry)
		if !ok {
			return
		}
		handle(frame)
	}
}

// next takes a frame, however long the bus is down; false when ctx has ended.
func (s *Server) next(ctx context.Context, p transport.Puller, retry *transport.Backoff) ([]byte, bool) {
	for {
		frame, err := p.Next(ctx)
		if err == nil {
			retry.Reset()
			return frame, true
		}
		if ctx.Err() != nil {
			return nil, false
		}
		if retry.First() {
			s.options.Log.Warn().Str("step", "bus").Err(err).Str("module", s.module).Msg("cannot take requests, trying again")
		}
		if transport.Pause(ctx, retry.Next()) != nil {
			return nil, false
		}
	}
}

// Status lists the server's objects and its workers' calls.
func (s *Server) Status() zbus.Status {
	return zbus.Status{Objects: s.objects.ids(), Workers: s.workers.list()}
}

// handle runs a call as one of the workers.
func (s *Server) handle(worker int, frame []byte) {
	req, ok := s.calls.admit(frame)
	if !ok {
		return
	}
	s.workers.set(worker, zbus.WorkerBusy, "["+req.Object.String()+"]."+req.Method+"()")
	defer s.workers.set(worker, zbus.WorkerFree, "")
	s.calls.serve(req)
}

func (s *Server) handleStatus(frame []byte) {
	req, ok := s.calls.admit(frame)
	if !ok {
		return
	}
	data, err := encode(s.Status())
	if err != nil {
		s.calls.answer(req, notCalled(req, node.WithKind(node.Internal, err)))
		return
	}
	s.calls.answer(req, &reply{ID: req.ID, Output: output{Data: data}})
}

// ServerStats count a server's requests and events since it was made.
type ServerStats struct {
	// Served requests were answered. Expired ones weren't run because their
	// caller had given up; Refused ones couldn't be read or had a reply key of
	// another form; Panicked are those whose method panicked or ended its goroutine; Lost replies and
	// events couldn't be sent.
	Served, Expired, Refused, Panicked, Lost uint64
}

// Stats returns the counts.
func (s *Server) Stats() ServerStats { return s.counts.stats() }

// counts are those of ServerStats.
type counts struct {
	served, expired, refused, panicked, lost atomic.Uint64
}

func (c *counts) stats() ServerStats {
	return ServerStats{
		Served: c.served.Load(), Expired: c.expired.Load(), Refused: c.refused.Load(),
		Panicked: c.panicked.Load(), Lost: c.lost.Load(),
	}
}
