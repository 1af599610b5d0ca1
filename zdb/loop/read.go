package loop

import (
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/resp"
)

const (
	// fewBytes is how long the beginning of a request may be that is copied to what
	// comes next, instead of that being read behind it.
	fewBytes = 4 << 10
	// gone is what epoll says of a connection whose other end is no more.
	gone = unix.EPOLLHUP | unix.EPOLLERR
	// countEvery is after how many requests their time is counted.
	countEvery  = 4
	errStranger = "Request too big before SELECT or AUTH"
)

// ready is called when epoll has something to say about c.
func (l *Loop) ready(c *Conn, events uint32) {
	if c.dead {
		return
	}
	l.touch(c)
	switch {
	case c.draining:
		l.drain(c)
	case c.held && events&unix.EPOLLRDHUP != 0:
		// Who waits for something and doesn't wait needn't be answered.
		l.drop(c)
	case c.held || c.closing || c.slow():
		if events&gone != 0 {
			l.drop(c)
		}
	case c.later:
		// Its turn comes, and what is wrong with it shows then.
	case events&(unix.EPOLLIN|gone) == 0:
	case l.spent(c):
		c.unread = true
		l.queue(c)
	default:
		l.read(c)
	}
}

// read reads from c, once, and runs what is complete.
func (l *Loop) read(c *Conn) {
	if c.eof {
		// Nothing can come; what is left to be sent can't go either.
		l.drop(c)
		return
	}
	begun := c.in[c.at:]
	if len(begun) > fewBytes {
		l.readBehind(c)
		return
	}
	copy(l.shared, begun)
	most := len(l.shared)
	if c.stranger {
		// Not more than it may keep here, when it isn't its turn.
		most = len(begun) + int(StrangerRequest.Each)
	}
	n := l.receive(c, l.shared[len(begun):most])
	if n == 0 {
		return
	}
	data := l.shared[:len(begun)+n]
	used := l.run(c, data)
	if used == 0 {
		l.keep(c, data[len(begun):])
		return
	}
	c.in, c.at = c.in[:0], 0
	l.keep(c, data[used:])
}

// readBehind reads behind what is there of a large request.
func (l *Loop) readBehind(c *Conn) {
	have := len(c.in) - c.at
	// Room for all of it isn't made on its word: at most twice what has come.
	if !l.reserve(c, min(max(c.parser.Need(), have+1), max(2*have, readSize/2))) {
		return
	}
	n := l.receive(c, c.in[len(c.in):cap(c.in)])
	if n == 0 {
		return
	}
	c.in = c.in[:len(c.in)+n]
	l.resume(c)
}

// resume runs what waits in c's buffer.
func (l *Loop) resume(c *Conn) {
	l.touch(c)
	c.later = false
	used := l.run(c, c.in[c.at:])
	if c.at += used; used > 0 {
		c.begun = l.now
	}
	if c.at == len(c.in) {
		l.release(c)
	}
}

// receive reads once. It returns 0 when there is nothing to run.
func (l *Loop) receive(c *Conn, p []byte) int {
	n, errno := recv(c.fd, p)
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
		return 0
	case errno != 0:
		l.drop(c)
		return 0
	case n == 0:
		c.eof = true
		return 0
	}
	c.last = l.now
	l.count.Received += uint64(n)
	return n
}

// run runs the requests in data that are complete, until it is others' turn. It
// returns how many bytes they have.
func (l *Loop) run(c *Conn, data []byte) int {
	used, counted, began := 0, 0, time.Now()
	n := 0
	for ; !c.stopped(); n++ {
		if n-counted == countEvery {
			now := time.Now()
			l.spend(c, countEvery, now.Sub(began))
			counted, began = n, now
		}
		if n == maxTurn || c.slow() || counted == n && l.spent(c) {
			c.later = used < len(data)
			break
		}
		args, size, err := c.parser.Next(data[used:], l.args[:0], c.limits())
		l.args = args
		if err != nil {
			l.malformed(c, err)
			break
		}
		if size == 0 {
			break
		}
		used += size
		l.count.Requests++
		if c.Out == nil {
			c.Out = l.pool.get(c.usual)
		}
		l.config.Handler.Command(c, args)
		l.settle(c)
	}
	if n > counted {
		l.spend(c, n-counted, time.Since(began))
	}
	clear(l.args)
	if c.closing || c.dead {
		c.later = false
		return len(data)
	}
	c.later = c.later || c.held && used < len(data)
	return used
}

func (l *Loop) malformed(c *Conn, err error) {
	l.count.Malformed++
	text := err.Error()
	if c.stranger && (errors.Is(err, resp.ErrTooBig) || errors.Is(err, resp.ErrWholeSize)) {
		StrangerRequest.Reached()
		text = errStranger
	}
	c.Out = resp.AppendError(c.Out, text)
	c.closing = true
	l.settle(c)
}

// keep puts what hasn't run behind what is kept of c.
func (l *Loop) keep(c *Conn, rest []byte) {
	if c.dead || len(rest) == 0 {
		if len(c.in) == c.at {
			l.release(c)
		}
		return
	}
	if len(c.in) == c.at {
		c.begun = l.now
	}
	if l.reserve(c, len(c.in)-c.at+len(rest)) {
		c.in = append(c.in, rest...)
	}
}

// reserve makes room for n bytes of requests in c's buffer. It says false when c
// was closed for it.
func (l *Loop) reserve(c *Conn, n int) bool {
	if cap(c.in)-c.at < n || c.at > 0 && len(c.in) == c.at {
		if cap(c.in) >= n {
			c.in = c.in[:copy(c.in[:cap(c.in)], c.in[c.at:])]
		} else {
			grown := append(l.pool.get(n), c.in[c.at:]...)
			l.pool.put(c.in)
			c.in = grown
		}
		c.at = 0
		l.settle(c)
	}
	return !c.dead
}

// release gives c's buffer for requests back.
func (l *Loop) release(c *Conn) {
	if c.in != nil {
		l.pool.put(c.in)
		c.in, c.at = nil, 0
		l.settle(c)
	}
}
