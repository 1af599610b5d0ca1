package loop

// closer closes connections on behalf of places; both take the connection off
// the places at once.
type closer interface {
	// displace closes a connection whose place another one gets.
	displace(c *Conn)
	// evict closes a connection whose buffers are too large.
	evict(c *Conn)
}

// places shares connections, group places and buffers among parties. It counts each
// connection's use, and closes connections to make room.
type places struct {
	shares  shares
	census  census
	closer  closer
	sources parties
	groups  parties
	admin   *party // the connections of admins' listeners
	// known and unknown count the connections of each kind, without those of admins'
	// listeners.
	known, unknown int
	unknownBytes   int64 // buffers of the unknown ones
	buffers        int64 // bytes of all connections' buffers
}

func newPlaces(s shares, conns *table) *places {
	return &places{shares: s, census: census{conns: conns}, sources: parties{}, groups: parties{}, admin: &party{name: "admin"}}
}

// admit finds a place for a new connection. It returns false when there is none.
func (p *places) admit(c *Conn, source string) bool {
	if c.Admin {
		if c.member.source = p.admin; int64(p.admin.refs) >= AdminConnections.Total {
			AdminConnections.Reached()
			return false
		}
		p.admin.refs++
		return true
	}
	c.member.source = p.sources.join(source)
	if !p.placeAs(c, false) {
		p.sources.leave(c.member.source)
		return false
	}
	p.enlist(c)
	return true
}

// stand changes c's standing. It returns false, and changes nothing, when there is
// no place for it.
func (p *places) stand(c *Conn, s Standing) bool {
	m := &c.member
	group := p.groups.join(s.Group)
	if group != nil && group != m.group && !p.placeIn(group, s.Known) || s.Known != m.known && !p.placeAs(c, s.Known) {
		p.groups.leave(group)
		return false
	}
	p.delist(c)
	m.group, m.known, m.stranger = group, s.Known, s.Stranger
	p.enlist(c)
	return true
}

// placeAs makes a place for c as a known connection or an unknown one. It returns
// false when there is none.
func (p *places) placeAs(c *Conn, known bool) bool {
	limit := p.shares.connections
	source := c.member.source
	switch {
	case known && int64(p.known) >= limit.Total-limit.Total/newcomers:
		limit.Reached()
		return p.displace(p.census.stalest(func(o *Conn) *party { return o.payerIf(o.member.known) }, 0))
	case known:
		return true
	case int64(source.conns) >= limit.Each:
		limit.Reached()
		return p.displace(p.census.stalest(func(o *Conn) *party { return o.payerIf(o.member.stranger && o.member.source == source) }, 0))
	case int64(p.unknown) >= limit.Total-limit.Kept || int64(p.unknown+p.known) >= limit.Total:
		limit.Reached()
		// Strangers go first, then connections of crowded parties.
		return p.displace(p.census.stalest(func(o *Conn) *party { return o.payerIf(o.member.stranger) }, 0)) ||
			p.displace(p.census.stalest(func(o *Conn) *party { return o.payerIf(!o.member.known) }, source.conns+1)) ||
			int64(p.unknown) < limit.Total-limit.Kept &&
				p.displace(p.census.stalest(func(o *Conn) *party { return o.payerIf(o.member.known) }, int(limit.Total/newcomers)))
	}
	return true
}

// placeIn makes a place in a group. Known connections are displaced for known ones
// only.
func (p *places) placeIn(group *party, known bool) bool {
	if int64(group.conns) < p.shares.group.Each {
		return true
	}
	p.shares.group.Reached()
	sources := func(known bool) func(o *Conn) *party {
		return func(o *Conn) *party {
			if o.Admin || o.member.group != group || o.member.known != known {
				return nil
			}
			return o.member.source
		}
	}
	if p.displace(p.census.stalest(sources(false), 0)) {
		return true
	}
	return known && p.displace(p.census.stalest(sources(true), 0))
}

// payerIf is c's payer if the condition holds, and nil for an admin's connection.
func (c *Conn) payerIf(holds bool) *party {
	if !holds || c.Admin {
		return nil
	}
	return c.member.payer()
}

// displace closes c for another connection. It returns false when c is nil.
func (p *places) displace(c *Conn) bool {
	if c == nil {
		return false
	}
	p.closer.displace(c)
	return true
}

// enlist counts a connection by its standing, delist takes that back.
func (p *places) enlist(c *Conn) {
	m := &c.member
	if m.group != nil {
		m.group.conns++
	}
	if m.known {
		p.known++
		return
	}
	p.unknown++
	m.source.conns++
	p.unknownBytes += int64(m.charged)
}

func (p *places) delist(c *Conn) {
	m := &c.member
	if m.group != nil {
		m.group.conns--
		p.groups.leave(m.group)
	}
	if m.known {
		p.known--
		return
	}
	p.unknown--
	m.source.conns--
	p.unknownBytes -= int64(m.charged)
}

// depart takes a connection off everything that it counts for.
func (p *places) depart(c *Conn) {
	p.charge(c, 0)
	if c.Admin {
		p.admin.refs--
		return
	}
	p.delist(c)
	p.sources.leave(c.member.source)
}

// settle counts the size of c's buffers. When all together take too much, the
// connections with the most are evicted.
func (p *places) settle(c *Conn) {
	size := c.size()
	if size == c.member.charged || c.life.dead || c.life.evicted {
		return
	}
	p.charge(c, size)
	p.fit(c)
}

// charge sets the size of c's buffers.
func (p *places) charge(c *Conn, size int) {
	m := &c.member
	more := int64(size - m.charged)
	m.charged = size
	p.buffers += more
	m.source.bytes += more
	if !c.Admin && !m.known {
		p.unknownBytes += more
	}
}

// fit evicts connections until the limits hold again, now that c has more.
func (p *places) fit(c *Conn) {
	if c.Admin {
		return
	}
	limit := p.shares.buffers
	if int64(c.member.charged) > ConnectionBuffers.Each {
		ConnectionBuffers.Reached()
		p.closer.evict(c)
	}
	for c.member.source.bytes > limit.Each {
		limit.Reached()
		p.closer.evict(p.census.fullest(func(o *Conn) bool { return !o.Admin && o.member.source == c.member.source }))
	}
	for p.unknownBytes > limit.Total-limit.Kept {
		limit.Reached()
		p.closer.evict(p.census.fullest(func(o *Conn) bool { return !o.Admin && !o.member.known }))
	}
	for p.buffers-p.admin.bytes > limit.Total {
		limit.Reached()
		p.closer.evict(p.census.fullest(func(o *Conn) bool { return !o.Admin }))
	}
}

// room is how many bytes c's buffers may still grow by.
func (p *places) room(c *Conn) int64 {
	limit := p.shares.buffers
	room := min(ConnectionBuffers.Each-int64(c.member.charged), limit.Each-c.member.source.bytes, limit.Total-(p.buffers-p.admin.bytes))
	if !c.member.known {
		room = min(room, limit.Total-limit.Kept-p.unknownBytes)
	}
	// A buffer that grows may take a quarter more than it needs.
	return max(room-room/5, 0)
}
