package loop

import (
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/resp"
)

const (
	errMany = "Too many connections"
	// errFull is sent to a connection whose request is too large for the buffers that
	// all may have together.
	errFull = "Server has too many requests pending"
)

// connections opens and closes connections.
type connections struct {
	handler Handler
	rare    zerolog.Logger
	poller  *poller
	round   *round
	agenda  *agenda
	places  *places
	pool    *buffers
	table   *table
	gone    []*Conn // closed in this round
}

// enter makes a connection of an accepted socket.
func (k *connections) enter(fd int, source string, admin bool) {
	c := &Conn{Admin: admin, round: k.round, agenda: k.agenda, places: k.places}
	c.socket = socket{fd: fd, events: unix.EPOLLIN, last: k.round.now}
	if !k.places.admit(c, source) {
		k.round.count.Refused++
		_, _ = send(fd, resp.AppendError(nil, errMany))
		_ = unix.Close(fd)
		return
	}
	if err := k.poller.add(fd); err != nil {
		k.round.count.AcceptErrors++
		k.rare.Error().Err(err).Msg("cannot wait for a connection: it is closed")
		k.places.depart(c)
		_ = unix.Close(fd)
		return
	}
	k.table.add(c)
	k.round.count.Accepted++
	k.handler.Open(c)
	k.agenda.touch(c)
}

// drop closes a connection, when the round ends.
func (k *connections) drop(c *Conn) {
	if c.life.dead {
		return
	}
	c.life.dead = true
	k.gone = append(k.gone, c)
	k.places.depart(c)
}

// displace closes a connection whose place another one gets.
func (k *connections) displace(c *Conn) {
	k.round.count.Displaced++
	if c.unsent() == 0 && !c.life.draining {
		_, _ = send(c.socket.fd, resp.AppendError(nil, errMany))
	}
	k.drop(c)
}

// evict closes a connection whose buffers are too large. They may be in use now:
// it closes when the round ends.
func (k *connections) evict(c *Conn) {
	k.round.count.Evicted++
	k.places.charge(c, 0)
	c.life.evicted = true
	if c.unsent() > 0 || c.life.draining {
		// An error in place of the replies of commands that have run would be wrong.
		k.drop(c)
		return
	}
	c.Out = resp.AppendError(c.Out, errFull)
	c.CloseAfter()
}

// reap closes the dropped connections' sockets: a descriptor isn't used again
// within a round.
func (k *connections) reap() {
	for i := 0; i < len(k.gone); i++ {
		c := k.gone[i]
		k.gone[i] = nil
		k.table.remove(c)
		_ = unix.Close(c.socket.fd)
		k.handler.Closed(c)
		k.pool.put(c.in.buf)
		k.pool.put(c.Out)
		c.in.buf, c.Out = nil, nil
	}
	k.gone = k.gone[:0]
}

// end closes all connections.
func (k *connections) end() {
	for c := range k.table.live {
		k.drop(c)
	}
	k.reap()
}
