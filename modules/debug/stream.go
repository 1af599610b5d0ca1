package debug

import (
	"context"
	"time"

	"github.com/croft-edge/croft/pkg/backoff"
	"github.com/croft-edge/croft/pkg/node"
)

const (
	// maxBatch is how many lines are sent before their replies are read.
	maxBatch = 64
	// idle is the time without lines after which a connection is pinged.
	idle = 30 * time.Second
	// doubt is the time without lines after which the connection is pinged before the next lines.
	doubt = time.Second
)

// stream publishes its queue's lines from one goroutine, run.
type stream struct {
	spec     node.DebugSpec
	cfg      Config
	queue    *queue
	delivery delivery
	ctx      context.Context
	end      context.CancelFunc
	done     chan struct{}

	// The rest belongs to run. unreported counts the dropped lines that the channel
	// has no notice of yet.
	unreported uint64
	outages    outageLog
}

func newStream(ctx context.Context, spec node.DebugSpec, c Config) *stream {
	s := &stream{spec: spec, cfg: c, queue: newQueue(), done: make(chan struct{}), outages: outageLog{id: spec.ID, log: c.Log}}
	s.ctx, s.end = context.WithCancel(ctx)
	return s
}

// info is the stream's present state.
func (s *stream) info() node.DebugInfo {
	dropped := s.queue.losses()
	d := s.delivery.snapshot()
	return node.DebugInfo{
		ID: s.spec.ID, User: s.spec.User, Host: s.spec.Host, Port: s.spec.Port, Channel: s.spec.Channel, Hash: s.spec.Hash,
		Connected: d.connected, Sent: d.sent, Dropped: dropped + d.failed, LastError: d.lastError,
	}
}

// stop ends the stream, also while it is connecting or sending, and waits for its end.
func (s *stream) stop() {
	s.end()
	<-s.done
}

// run connects, publishes, and reconnects, until the stream is stopped.
func (s *stream) run() {
	defer close(s.done)
	defer s.end()
	ctx := s.ctx
	for failures := 0; ; {
		before := s.info().Sent
		err := s.session(ctx)
		if ctx.Err() != nil {
			return
		}
		if s.info().Sent > before {
			failures = 0
		}
		failures++
		s.fail(err)
		if !pause(ctx, backoff.Backoff{Base: s.cfg.Pause, Max: s.cfg.MaxPause}.Delay(failures)) {
			return
		}
	}
}

// session connects, and publishes until the connection ends.
func (s *stream) session(ctx context.Context) error {
	c, err := connect(ctx, s.cfg, address(s.spec))
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.ping(); err != nil {
		return err
	}
	s.delivery.connect()
	defer s.delivery.disconnect("")
	s.outages.recovered(address(s.spec))
	quiet := time.NewTimer(idle)
	defer quiet.Stop()
	for {
		if err := s.flush(c); err != nil {
			return err
		}
		heard := time.Now()
		quiet.Reset(idle)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.queue.came:
		case <-quiet.C:
		}
		if time.Since(heard) > doubt {
			// A dead connection must not take lines from the queue.
			if err := c.ping(); err != nil {
				return err
			}
		}
	}
}

// flush publishes the queued lines, after a notice of the dropped ones.
func (s *stream) flush(c *connection) error {
	for {
		lines, lost := s.queue.take(maxBatch)
		s.unreported += lost
		if len(lines) == 0 && s.unreported == 0 {
			return nil
		}
		texts := make([]string, 0, len(lines)+1)
		notice := s.unreported > 0
		if notice {
			texts = append(texts, droppedLine(s.unreported, time.Now()))
			s.outages.dropped(s.info().Dropped)
		}
		for _, l := range lines {
			// Scrubbing a batch of long lines takes a second, and stop waits for this.
			if err := s.ctx.Err(); err != nil {
				return err
			}
			texts = append(texts, l.clean())
		}
		taken, err := c.publish(s.spec.Channel, texts)
		if notice && taken > 0 {
			s.unreported = 0
			taken--
		}
		missing := uint64(len(lines) - taken)
		s.unreported += missing
		s.delivery.add(uint64(taken), missing)
		if err != nil {
			return err
		}
	}
}

// fail records why there is no connection, and logs it at most every logEvery.
func (s *stream) fail(err error) {
	text := printable(err)
	s.delivery.disconnect(text)
	s.outages.failed(text, s.info().Dropped)
}

// pause returns after d, or false at once when ctx is done.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
