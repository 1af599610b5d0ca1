package loop

import "time"

// party shares a limit: the connections of a source, or those of a group.
type party struct {
	name string
	// refs counts all its connections, conns those that count for its limit: of a
	// source only the unknown ones.
	refs, conns int
	// bytes are the buffers of a source's connections.
	bytes int64
	turn  turn
	// found is what the search that stamp numbers found of it.
	found tally
	stamp uint64
}

// tally is what a search found of a party.
type tally struct {
	sum int64 // weight of its connections
	// stalest is the file descriptor of the connection that has been silent the
	// longest, last the time of its last byte.
	stalest int
	last    time.Time
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

// tally is what this search found of p so far: nothing at first.
func (s *census) tally(p *party) *tally {
	if p.stamp != s.stamp {
		p.stamp, p.found = s.stamp, tally{}
	}
	return &p.found
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
		found := s.tally(p)
		if found.sum += weight(c); most == nil || found.sum > most.found.sum {
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
//
// One pass is enough: a party that gets another connection while it is among those
// with the most is the only one with that many.
func (s *census) stalest(of func(c *Conn) *party, least int) *Conn {
	s.stamp++
	var most tally
	for c := range s.conns.candidates {
		p := of(c)
		if p == nil {
			continue
		}
		found := s.tally(p)
		if found.sum++; found.sum == 1 || c.socket.last.Before(found.last) {
			found.stalest, found.last = c.socket.fd, c.socket.last
		}
		if found.sum > most.sum || found.sum == most.sum && found.last.Before(most.last) {
			most = *found
		}
	}
	if most.sum <= int64(least) {
		return nil
	}
	return s.conns.of(most.stalest)
}
