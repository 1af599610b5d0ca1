package loop

import (
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/resp"
)

const (
	// maxTurn is how many requests of a connection run before others have a turn.
	maxTurn = 128
	// fewBytes is the length up to which the beginning of a request is copied to the
	// next input; the next input is read behind a longer one.
	fewBytes = 4 << 10
	// gone are the events of a connection whose other end has ended.
	gone = unix.EPOLLHUP | unix.EPOLLERR
	// countEvery is after how many requests their time is counted.
	countEvery  = 4
	errStranger = "Request too big before SELECT or AUTH"
	// drainSize is how many bytes a client that was told of its connection's end may
	// still send.
	drainSize = 64 << 20
)

// reader reads from connections and runs their requests.
type reader struct {
	handler           Handler
	round             *round
	agenda            *agenda
	fairness          fairness
	conns             *connections
	places            *places
	pool              *buffers
	limits, strangers resp.Limits
	landing           []byte // input is read into it first
	args              [][]byte
}

// ready handles c's events.
func (r *reader) ready(c *Conn, events uint32) {
	if c.life.dead {
		return
	}
	r.agenda.touch(c)
	switch {
	case c.life.draining:
		r.drain(c)
	case c.life.held && events&unix.EPOLLRDHUP != 0:
		// The client of a held connection has gone: it needs no answer.
		r.conns.drop(c)
	case c.life.held || c.life.closing || c.slow():
		if events&gone != 0 {
			r.conns.drop(c)
		}
	case c.schedule.later:
		// Its turn comes, and an error of the socket shows then.
	case events&(unix.EPOLLIN|gone) == 0:
	case r.fairness.spent(c):
		c.schedule.unread = true
		r.agenda.queue(c)
	default:
		r.read(c)
	}
}

// takeTurn reads from a connection that waited for its turn, or runs its requests.
func (r *reader) takeTurn(c *Conn) {
	switch {
	case r.fairness.spent(c):
		r.agenda.queue(c) // others that waited as long had their party's turn
	case c.schedule.unread:
		c.schedule.unread, c.schedule.later = false, false
		r.agenda.touch(c)
		r.read(c)
	default:
		r.resume(c)
	}
}

// read reads from c, once, and runs the complete requests.
func (r *reader) read(c *Conn) {
	if c.in.eof {
		// Nothing can come; the rest of the replies can't be sent either.
		r.conns.drop(c)
		return
	}
	begun := c.in.pending()
	if len(begun) > fewBytes {
		r.readBehind(c)
		return
	}
	copy(r.landing, begun)
	most := len(r.landing)
	if c.member.stranger {
		// Not more than a stranger's buffer may keep when it isn't its turn.
		most = len(begun) + int(StrangerRequest.Each)
	}
	n := r.receive(c, r.landing[len(begun):most])
	if n == 0 {
		return
	}
	data := r.landing[:len(begun)+n]
	used := r.run(c, data)
	if used == 0 {
		r.keep(c, data[len(begun):])
		return
	}
	c.in.buf, c.in.at = c.in.buf[:0], 0
	r.keep(c, data[used:])
}

// readBehind reads behind the present part of a large request.
func (r *reader) readBehind(c *Conn) {
	have := len(c.in.pending())
	// The request's own word isn't enough to make room for all of it: at most twice
	// the present part.
	if !r.reserve(c, min(max(c.in.parser.Need(), have+1), max(2*have, readSize/2))) {
		return
	}
	n := r.receive(c, c.in.buf[len(c.in.buf):cap(c.in.buf)])
	if n == 0 {
		return
	}
	c.in.buf = c.in.buf[:len(c.in.buf)+n]
	r.resume(c)
}

// resume runs the requests in c's buffer.
func (r *reader) resume(c *Conn) {
	r.agenda.touch(c)
	c.schedule.later = false
	if c.in.used(r.run(c, c.in.pending()), r.round.now) {
		r.release(c)
	}
}

// receive reads once. It returns 0 when there is nothing to run.
func (r *reader) receive(c *Conn, p []byte) int {
	n, errno := recv(c.socket.fd, p)
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
		return 0
	case errno != 0:
		r.conns.drop(c)
		return 0
	case n == 0:
		c.in.eof = true
		return 0
	}
	c.socket.last = r.round.now
	r.round.count.Received += uint64(n)
	return n
}

// run runs the complete requests in data, until it is others' turn. It returns how
// many bytes they have.
func (r *reader) run(c *Conn, data []byte) int {
	used, counted, began := 0, 0, time.Now()
	n := 0
	for ; !c.life.stopped(); n++ {
		if n-counted == countEvery {
			now := time.Now()
			r.fairness.spend(c, countEvery, now.Sub(began))
			counted, began = n, now
		}
		if n == maxTurn || c.slow() || counted == n && r.fairness.spent(c) {
			c.schedule.later = used < len(data)
			break
		}
		args, size, err := c.in.parser.Next(data[used:], r.args[:0], r.limitsOf(c))
		r.args = args
		if err != nil {
			r.malformed(c, err)
			break
		}
		if size == 0 {
			break
		}
		used += size
		r.round.count.Requests++
		if c.Out == nil {
			c.Out = r.pool.get(c.reply.usual)
		}
		r.handler.Command(c, args)
		r.places.settle(c)
	}
	if n > counted {
		r.fairness.spend(c, n-counted, time.Since(began))
	}
	clear(r.args)
	if c.life.closing || c.life.dead {
		c.schedule.later = false
		return len(data)
	}
	c.schedule.later = c.schedule.later || c.life.held && used < len(data)
	return used
}

func (r *reader) limitsOf(c *Conn) *resp.Limits {
	if c.member.stranger {
		return &r.strangers
	}
	return &r.limits
}

// malformed answers an error of the protocol, and has the connection closed.
func (r *reader) malformed(c *Conn, err error) {
	r.round.count.Malformed++
	text := err.Error()
	if c.member.stranger && (errors.Is(err, resp.ErrTooBig) || errors.Is(err, resp.ErrWholeSize)) {
		StrangerRequest.Reached()
		text = errStranger
	}
	c.Out = resp.AppendError(c.Out, text)
	c.life.closing = true
	r.places.settle(c)
}

// keep appends input that hasn't run to c's buffer.
func (r *reader) keep(c *Conn, rest []byte) {
	have := len(c.in.pending())
	if c.life.dead || len(rest) == 0 {
		if have == 0 {
			r.release(c)
		}
		return
	}
	if have == 0 {
		c.in.begun = r.round.now
	}
	if r.reserve(c, have+len(rest)) {
		c.in.buf = append(c.in.buf, rest...)
	}
}

// reserve makes room for n bytes of requests in c's buffer. It returns false when
// c was closed for it.
func (r *reader) reserve(c *Conn, n int) bool {
	if c.in.reserve(r.pool, n) {
		r.places.settle(c)
	}
	return !c.life.dead
}

// release gives c's buffer for requests back.
func (r *reader) release(c *Conn) {
	if c.in.release(r.pool) {
		r.places.settle(c)
	}
}

// drain throws input away.
func (r *reader) drain(c *Conn) {
	n, errno := recv(c.socket.fd, r.landing)
	if errno == unix.EAGAIN || errno == unix.EINTR {
		return
	}
	if c.life.drained += n; errno != 0 || n == 0 || c.life.drained > drainSize {
		r.conns.drop(c)
	}
}
