package loop

import "github.com/croft-edge/croft/pkg/resp"

// admit finds a place for a connection that comes in, and says false when there
// is none.
func (l *Loop) admit(c *Conn, source string) bool {
	if c.Admin {
		if c.source = l.admin; int64(l.admin.refs) >= AdminConnections.Total {
			AdminConnections.Reached()
			return false
		}
		l.admin.refs++
		return true
	}
	c.source = l.sources.join(source)
	if !l.placeAs(c, false) {
		l.sources.leave(c.source)
		return false
	}
	l.enlist(c)
	return true
}

// placeAs makes a place for c as one that is known, or isn't. It says false when
// there is none.
func (l *Loop) placeAs(c *Conn, known bool) bool {
	most := l.shares.connections
	switch {
	case known && int64(l.known) >= most.Total-most.Total/newcomers:
		most.Reached()
		return l.displace(l.stalest(func(c *Conn) *party { return c.payerIf(c.known) }, 0))
	case known:
		return true
	case int64(c.source.conns) >= most.Each:
		most.Reached()
		return l.displace(l.stalest(func(o *Conn) *party { return o.payerIf(o.stranger && o.source == c.source) }, 0))
	case int64(l.unknown) >= most.Total-most.Kept || int64(l.unknown+l.known) >= most.Total:
		most.Reached()
		// Who has chosen nothing goes first, then who is of the many.
		return l.displace(l.stalest(func(o *Conn) *party { return o.payerIf(o.stranger) }, 0)) ||
			l.displace(l.stalest(func(o *Conn) *party { return o.payerIf(!o.known) }, c.source.conns+1)) ||
			int64(l.unknown) < most.Total-most.Kept &&
				l.displace(l.stalest(func(o *Conn) *party { return o.payerIf(o.known) }, int(most.Total/newcomers)))
	}
	return true
}

// placeIn makes a place in a group, whose known ones make place for known ones
// only.
func (l *Loop) placeIn(group *party, known bool) bool {
	if int64(group.conns) < l.shares.group.Each {
		return true
	}
	l.shares.group.Reached()
	sources := func(known bool) func(o *Conn) *party {
		return func(o *Conn) *party {
			if o.Admin || o.group != group || o.known != known {
				return nil
			}
			return o.source
		}
	}
	if l.displace(l.stalest(sources(false), 0)) {
		return true
	}
	return known && l.displace(l.stalest(sources(true), 0))
}

// payerIf is c's payer where that is so, and c isn't an admin's.
func (c *Conn) payerIf(is bool) *party {
	if !is || c.Admin {
		return nil
	}
	return c.payer()
}

// displace closes c, where there is one, for another.
func (l *Loop) displace(c *Conn) bool {
	if c == nil {
		return false
	}
	l.count.Displaced++
	if c.unsent() == 0 && !c.draining {
		_, _ = send(c.fd, resp.AppendError(nil, errMany))
	}
	l.drop(c)
	return true
}

// enlist counts a connection for what it stands for, delist takes that back.
func (l *Loop) enlist(c *Conn) {
	if c.group != nil {
		c.group.conns++
	}
	if c.known {
		l.known++
		return
	}
	l.unknown++
	c.source.conns++
	l.unknownBytes += int64(c.charged)
}

func (l *Loop) delist(c *Conn) {
	if c.group != nil {
		c.group.conns--
		l.groups.leave(c.group)
	}
	if c.known {
		l.known--
		return
	}
	l.unknown--
	c.source.conns--
	l.unknownBytes -= int64(c.charged)
}

// depart takes a connection off everything that it counts for.
func (l *Loop) depart(c *Conn) {
	l.charge(c, 0)
	if c.Admin {
		l.admin.refs--
		return
	}
	l.delist(c)
	l.sources.leave(c.source)
}

// charge says what c's buffers take.
func (l *Loop) charge(c *Conn, size int) {
	more := int64(size - c.charged)
	c.charged = size
	l.buffers += more
	c.source.bytes += more
	if !c.Admin && !c.known {
		l.unknownBytes += more
	}
}

// fit closes connections until all have room again, now that c has more.
func (l *Loop) fit(c *Conn) {
	if c.Admin {
		return
	}
	most := l.shares.buffers
	if int64(c.charged) > ConnectionBuffers.Each {
		ConnectionBuffers.Reached()
		l.evict(c)
	}
	for c.source.bytes > most.Each {
		most.Reached()
		l.evict(l.fullest(func(o *Conn) bool { return !o.Admin && o.source == c.source }))
	}
	for l.unknownBytes > most.Total-most.Kept {
		most.Reached()
		l.evict(l.fullest(func(o *Conn) bool { return !o.Admin && !o.known }))
	}
	for l.buffers-l.admin.bytes > most.Total {
		most.Reached()
		l.evict(l.fullest(func(o *Conn) bool { return !o.Admin }))
	}
}

// Room is how many bytes may be appended to Out before the buffers are too large,
// and somebody is closed.
func (c *Conn) Room() int64 {
	if c.l == nil || c.Admin {
		return ConnectionBuffers.Each
	}
	l, most := c.l, c.l.shares.buffers
	room := min(ConnectionBuffers.Each-int64(c.charged), most.Each-c.source.bytes, most.Total-(l.buffers-l.admin.bytes))
	if !c.known {
		room = min(room, most.Total-most.Kept-l.unknownBytes)
	}
	// A buffer that grows may take a quarter more than it needs.
	return max(room-room/5, 0)
}
