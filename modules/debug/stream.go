package debug

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/croft-edge/croft/pkg/node"
)

const (
	// maxBatch is how many lines are sent before their answers are read.
	maxBatch = 64
	// idle is how long a connection may be quiet before it is asked whether it lives.
	idle = 30 * time.Second
	// doubt is after how long it is asked before lines are entrusted to it.
	doubt = time.Second
	// sayEvery is how often at most the node's log is told of one stream's trouble.
	sayEvery = time.Minute
)

// stream publishes the lines of its queue. Its goroutine is run.
type stream struct {
	spec  node.DebugSpec
	cfg   Config
	queue *queue
	ctx   context.Context
	end   context.CancelFunc
	done  chan struct{}

	// The rest, above the lock, is run's. unsaid counts the lines that were
	// dropped and of which the channel hasn't been told; saidTrouble and saidDrops are
	// when the node's log was told that there is no connection, and of a slow one; known
	// is whether it knows of an outage that lasts.
	unsaid                 uint64
	saidTrouble, saidDrops time.Time
	known                  bool

	mu        sync.Mutex
	connected bool
	sent      uint64
	// failed counts the lines that were taken off the queue and not delivered.
	failed uint64
	cause  string
}

func newStream(ctx context.Context, spec node.DebugSpec, c Config) *stream {
	s := &stream{spec: spec, cfg: c, queue: newQueue(), done: make(chan struct{})}
	s.ctx, s.end = context.WithCancel(ctx)
	return s
}

// info is the stream as of now.
func (s *stream) info() node.DebugInfo {
	dropped := s.queue.losses()
	s.mu.Lock()
	defer s.mu.Unlock()
	return node.DebugInfo{
		ID: s.spec.ID, User: s.spec.User, Host: s.spec.Host, Port: s.spec.Port, Channel: s.spec.Channel, Hash: s.spec.Hash,
		Connected: s.connected, Sent: s.sent, Dropped: dropped + s.failed, LastError: s.cause,
	}
}

// stop ends the stream, wherever it waits.
func (s *stream) stop() {
	s.end()
	<-s.done
}

// run connects, publishes, and connects again, until it is stopped.
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
		s.trouble(err)
		if !pause(ctx, delay(s.cfg.Pause, s.cfg.MaxPause, failures)) {
			return
		}
	}
}

// session is one connection's life.
func (s *stream) session(ctx context.Context) error {
	c, err := connect(ctx, s.cfg, address(s.spec))
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.ping(); err != nil {
		return err
	}
	s.state(true, "")
	defer s.state(false, "")
	if s.known {
		s.known = false
		s.cfg.Log.Info().Str("id", s.spec.ID).Str("address", address(s.spec)).Msg("log stream goes on")
	}
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
			// Lines that are still in the queue aren't lost with the connection.
			if err := c.ping(); err != nil {
				return err
			}
		}
	}
}

// flush publishes what waits, and says what is missing before it.
func (s *stream) flush(c *connection) error {
	for {
		lines, lost := s.queue.take(maxBatch)
		s.unsaid += lost
		if len(lines) == 0 && s.unsaid == 0 {
			return nil
		}
		texts := make([]string, 0, len(lines)+1)
		notice := s.unsaid > 0
		if notice {
			texts = append(texts, droppedLine(s.unsaid, time.Now()))
			s.sayDrops()
		}
		for _, l := range lines {
			texts = append(texts, l.clean())
		}
		taken, err := c.publish(s.spec.Channel, texts)
		if notice && taken > 0 {
			s.unsaid = 0
			taken--
		}
		missing := uint64(len(lines) - taken)
		s.unsaid += missing
		s.mu.Lock()
		s.sent += uint64(taken)
		s.failed += missing
		s.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// state sets whether it is connected; a cause that is empty doesn't replace one
// while it isn't.
func (s *stream) state(connected bool, cause string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connected = connected
	if connected || cause != "" {
		s.cause = cause
	}
}

// trouble keeps why there is no connection, and tells the log now and then.
func (s *stream) trouble(err error) {
	s.state(false, shownError(err))
	if time.Since(s.saidTrouble) < sayEvery {
		return
	}
	s.saidTrouble, s.known = time.Now(), true
	s.cfg.Log.Warn().Str("id", s.spec.ID).Str("step", "publish").Str("error", shownError(err)).Uint64("dropped", s.info().Dropped).
		Msg("log lines can't be published: tried again")
}

// sayDrops tells the log of a stream that works and is too slow, now and then.
func (s *stream) sayDrops() {
	if time.Since(s.saidDrops) < sayEvery {
		return
	}
	s.saidDrops = time.Now()
	s.cfg.Log.Warn().Str("id", s.spec.ID).Str("step", "publish").Uint64("dropped", s.info().Dropped).
		Msg("log lines were dropped: the stream's redis server doesn't keep up")
}

// maxCause is how much of an error is kept: a part of it comes from a server
// that a tenant chose.
const maxCause = 400

func shownError(err error) string {
	text := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, err.Error())
	if len(text) > maxCause {
		text = strings.ToValidUTF8(text[:maxCause], "") + "…"
	}
	return text
}

// delay is how long to wait after so many failures in a row: doubling, with
// jitter, so that the streams of a restarted server don't come at once.
func delay(base, most time.Duration, failures int) time.Duration {
	d := most
	if shift := failures - 1; shift < 16 && base<<shift < most {
		d = base << shift
	}
	return d/2 + rand.N(d/2+1)
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
