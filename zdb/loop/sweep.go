package loop

import "time"

const (
	// sweepEvery is how often connections are checked for silence, and unused buffers
	// are let go.
	sweepEvery = time.Second
	// drainTime is how long a client that was told of its connection's end has to
	// read it.
	drainTime = time.Second
)

// sweeper closes connections that are silent or stalled for too long.
type sweeper struct {
	idle, silence, stall time.Duration // see Config
	next                 time.Time
	round                *round
	conns                *connections
}

func newSweeper(config *Config, r *round, conns *connections) sweeper {
	return sweeper{idle: config.Idle, silence: config.Silence, stall: config.Stall, round: r, conns: conns}
}

func (s *sweeper) due() bool { return !s.round.now.Before(s.next) }

// sweep checks all connections.
func (s *sweeper) sweep() {
	now := s.round.now
	every := min(sweepEvery, s.silence/4+1, s.stall/4+1)
	if s.idle > 0 {
		every = min(every, s.idle/4+1)
	}
	s.next = now.Add(every)
	for c := range s.conns.table.live {
		silent := now.Sub(c.socket.last)
		switch {
		case c.life.draining && silent >= drainTime:
			s.conns.drop(c)
		case s.idle > 0 && silent >= s.idle, c.member.stranger && silent >= s.silence:
			s.round.count.Idled++
			s.conns.drop(c)
		case s.stalled(c):
			s.round.count.Stalled++
			s.conns.drop(c)
		}
	}
}

// stalled reports whether c's client takes too long to send the rest of a request,
// or to take the rest of a reply.
func (s *sweeper) stalled(c *Conn) bool {
	now := s.round.now
	if c.unsent() > 0 && !c.reply.stuck.IsZero() && now.Sub(c.reply.stuck) >= s.stall {
		return true
	}
	have := len(c.in.pending())
	if have == 0 || c.schedule.later || c.life.held || c.slow() {
		return false
	}
	return now.Sub(c.in.begun) >= s.stall+time.Duration(have/slowest)*time.Second
}
