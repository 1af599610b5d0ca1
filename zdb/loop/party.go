package loop

// party shares a limit: the connections of a source, or those of a group.
type party struct {
	name string
	// refs counts all its connections, conns those that count for its limit: of a
	// source only the unknown ones.
	refs, conns int
	// bytes are the buffers of a source's connections.
	bytes int64
	turn  turn
	// sum is the weight found by the search that stamp numbers.
	sum   int64
	stamp uint64
}

// title is "" for none.
func (p *party) title() string {
	if p == nil {
		return ""
	}
	return p.name
}

// parties are those that have connections, by name.
type parties map[string]*party

// join returns the party of a name, with one more connection; nil for "".
func (all parties) join(name string) *party {
	if name == "" {
		return nil
	}
	p := all[name]
	if p == nil {
		p = &party{name: name}
		all[name] = p
	}
	p.refs++
	return p
}

// leave takes a connection off; p may be nil.
func (all parties) leave(p *party) {
	if p == nil {
		return
	}
	if p.refs--; p.refs == 0 {
		delete(all, p.name)
	}
}

// census searches the open connections for the one that has to make room.
type census struct {
	conns *table
	stamp uint64 // number of the last search
}

// heaviest is the party with the largest sum of weights of its connections. of is
// nil for connections that don't count. It is nil when there are none.
func (s *census) heaviest(of func(c *Conn) *party, weight func(c *Conn) int64) (most *party) {
	s.stamp++
	for c := range s.conns.candidates {
		p := of(c)
		if p == nil {
			continue
		}
		if p.stamp != s.stamp {
			p.stamp, p.sum = s.stamp, 0
		}
		if p.sum += weight(c); most == nil || p.sum > most.sum {
			most = p
		}
	}
	return most
}

// fullest is the connection with the largest buffers among those that may be
// closed, in the payer with the most, and there in the source with the most.
func (s *census) fullest(may func(c *Conn) bool) (most *Conn) {
	bytes := func(c *Conn) int64 { return int64(c.member.charged) }
	among := func(payer *party, of func(c *Conn) *party) func(c *Conn) *party {
		return func(c *Conn) *party {
			if !may(c) || payer != nil && c.member.payer() != payer {
				return nil
			}
			return of(c)
		}
	}
	payer := s.heaviest(among(nil, func(c *Conn) *party { return c.member.payer() }), bytes)
	source := s.heaviest(among(payer, func(c *Conn) *party { return c.member.source }), bytes)
	for c := range s.conns.candidates {
		if may(c) && c.member.payer() == payer && c.member.source == source && (most == nil || c.member.charged > most.member.charged) {
			most = c
		}
	}
	return most
}

// stalest is the connection that has been silent the longest, of the parties with
// the most connections, if these are more than least; nil when there is none.
func (s *census) stalest(of func(c *Conn) *party, least int) (stalest *Conn) {
	most := s.heaviest(of, func(*Conn) int64 { return 1 })
	if most == nil || most.sum <= int64(least) {
		return nil
	}
	for c := range s.conns.candidates {
		if p := of(c); p != nil && p.sum == most.sum && (stalest == nil || c.socket.last.Before(stalest.socket.last)) {
			stalest = c
		}
	}
	return stalest
}
