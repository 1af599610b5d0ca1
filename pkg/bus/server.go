package bus

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/croft-edge/croft/pkg/bus/transport"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/supervise"
	"github.com/pkg/errors"
	"github.com/threefoldtech/zbus"
)

// replyTTL is how long a reply waits for a caller who didn't say until when he
// waits.
const replyTTL = 5 * time.Minute

// Server serves the objects of one module.
type Server struct {
	bus     Bus
	module  string
	options Options
	boot    string

	mu      sync.Mutex
	objects map[zbus.ObjectID]*object
	running bool
	workers []zbus.WorkerStatus

	served, expired, refused, panicked, lost atomic.Uint64
}

// NewServer makes a server for the module of that name.
func NewServer(b Bus, module string, options Options) (*Server, error) {
	if err := options.Validate(); err != nil {
		return nil, err
	}
	if err := checkModule(module); err != nil {
		return nil, err
	}
	return &Server{
		bus: b, module: module, options: options.withDefaults(), boot: bootID(),
		objects: map[zbus.ObjectID]*object{},
	}, nil
}

func (s *Server) register(id zbus.ObjectID, o *object) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running {
		return node.Errorf(node.Refused, "cannot register %s: the server runs already", id)
	}
	if id.String() == statusObject().String() {
		return node.Errorf(node.Refused, "cannot register %s: the name is taken by the server's status", id)
	}
	if _, ok := s.objects[id]; ok {
		return node.Errorf(node.Exist, "cannot register %s: it is registered already", id)
	}
	s.objects[id] = o
	return nil
}

// Run serves until ctx ends, then takes no more requests, finishes those it
// has begun and returns nil; it fails when they take longer than
// Options.Grace. Trouble with the bus is logged and retried. Run may be called
// again when it has returned.
func (s *Server) Run(ctx context.Context) error {
	queues, err := s.begin()
	if err != nil {
		return err
	}
	defer s.end()
	status := queueName(s.module, statusObject())
	s.bus.Serve(append(slices.Clone(queues), status)...)

	var calls sync.WaitGroup
	var rest sync.WaitGroup
	s.startStreams(ctx, &rest)
	// The status is served on the side, so that it answers when all workers are busy.
	rest.Go(func() {
		_ = supervise.Keep(ctx, s.options.Log, "bus status", supervise.DefaultBackoff(), func(ctx context.Context) error {
			s.serve(ctx, []string{status}, s.answerStatus)
			return ctx.Err()
		})
	})
	s.serveWith(ctx, queues, &calls)
	rest.Wait()
	return s.finish(&calls)
}

func (s *Server) begin() ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running {
		return nil, node.Errorf(node.Exist, "cannot run the server of %s: it runs already", s.module)
	}
	if len(s.objects) == 0 {
		return nil, node.Errorf(node.Invalid, "cannot run the server of %s: no object is registered", s.module)
	}
	s.running = true
	s.workers = make([]zbus.WorkerStatus, s.options.Workers)
	for i := range s.workers {
		s.workers[i] = zbus.WorkerStatus{State: zbus.WorkerFree, StartTime: time.Now()}
	}
	var queues []string
	for id := range s.objects {
		queues = append(queues, queueName(s.module, id))
	}
	slices.Sort(queues)
	return queues, nil
}

func (s *Server) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = false
}

// finish waits for the calls that were begun.
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
		return node.Errorf(node.Busy, "cannot stop the server of %s in %s: %s", s.module, s.options.Grace, strings.Join(s.busy(), ", "))
	}
}

// serveWith takes a request only when a worker is free for it: what waits,
// waits on the bus, where it survives this process.
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
// grow once. free has an element for each that waits.
func (s *Server) startWorkers(calls *sync.WaitGroup) (work chan<- []byte, free <-chan struct{}) {
	n := s.options.Workers
	frames, waiting := make(chan []byte, n), make(chan struct{}, n)
	for worker := range n {
		waiting <- struct{}{}
		calls.Go(func() {
			for frame := range frames {
				supervise.Do(s.options.Log, "bus worker", func() { s.handle(worker, frame) })
				waiting <- struct{}{}
			}
		})
	}
	return frames, waiting
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

// next takes a frame, however long the bus is away; false when ctx has ended.
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
			s.options.Log.Warn().Str("step", "bus").Str("module", s.module).Err(err).Msg("requests can't be taken, trying again")
		}
		if transport.Pause(ctx, retry.Next()) != nil {
			return nil, false
		}
	}
}

// Status is what the server serves, and what it works on.
func (s *Server) Status() zbus.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	var status zbus.Status
	for id := range s.objects {
		status.Objects = append(status.Objects, id)
	}
	slices.SortFunc(status.Objects, func(a, b zbus.ObjectID) int { return strings.Compare(a.String(), b.String()) })
	status.Workers = slices.Clone(s.workers)
	return status
}

func (s *Server) setWorker(worker int, state zbus.WorkerState, action string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A call that outlived its Run may belong to a list of before.
	if worker < len(s.workers) {
		s.workers[worker] = zbus.WorkerStatus{State: state, StartTime: time.Now(), Action: action}
	}
}

// busy names what the workers are at.
func (s *Server) busy() []string {
	var actions []string
	for _, w := range s.Status().Workers {
		if w.State == zbus.WorkerBusy {
			actions = append(actions, fmt.Sprintf("%s since %s", w.Action, time.Since(w.StartTime).Round(time.Millisecond)))
		}
	}
	return actions
}

// ServerStats count what a server did since it was made.
type ServerStats struct {
	// Served requests were answered. Expired ones weren't run because their
	// caller had given up; Refused ones couldn't be read or had a reply key of
	// another form; Panicked are those of which the method panicked; Lost
	// replies and events couldn't be sent.
	Served, Expired, Refused, Panicked, Lost uint64
}

// Stats returns the counts.
func (s *Server) Stats() ServerStats {
	return ServerStats{
		Served: s.served.Load(), Expired: s.expired.Load(), Refused: s.refused.Load(),
		Panicked: s.panicked.Load(), Lost: s.lost.Load(),
	}
}

// errPanicked is all that a caller learns of a panic.
func errPanicked(name string) error {
	return node.WithKind(node.Internal, errors.Errorf("cannot finish %s: it failed badly, the node's log has more", name))
}
