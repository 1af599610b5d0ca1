package loop

import "time"

// party is who shares what there is: the connections from a source, or those of a
// group.
type party struct {
	name string
	// refs are all connections of it, conns those that count for its limit: of a
	// source only those that aren't known.
	refs, conns int
	// bytes are the buffers of a source's connections.
	bytes int64
	turn  turn
	// sum is what heaviest has summed up, in the search that stamp says.
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

// join is the party of a name, with one more connection; nil for "".
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

// heaviest is the party that weighs the most, of connections that may be taken,
// and what it weighs; nil when there are none.
func (l *Loop) heaviest(of func(c *Conn) *party, weight func(c *Conn) int64) (most *party) {
	l.search++
	for _, c := range l.conns {
		if c == nil || c.dead || c.evicted {
			continue
		}
		p := of(c)
		if p == nil {
			continue
		}
		if p.stamp != l.search {
			p.stamp, p.sum = l.search, 0
		}
		if p.sum += weight(c); most == nil || p.sum > most.sum {
			most = p
		}
	}
	return most
}

// fullest is the connection with the largest buffers: of those that may be taken
// in the party that has the most, and there of the source that has the most.
func (l *Loop) fullest(may func(c *Conn) bool) (most *Conn) {
	bytes := func(c *Conn) int64 { return int64(c.charged) }
	who := func(p *party, of func(c *Conn) *party) func(c *Conn) *party {
		return func(c *Conn) *party {
			if !may(c) || p != nil && c.payer() != p {
				return nil
			}
			return of(c)
		}
	}
	payer := l.heaviest(who(nil, (*Conn).payer), bytes)
	source := l.heaviest(who(payer, func(c *Conn) *party { return c.source }), bytes)
	for _, c := range l.conns {
		if c != nil && !c.dead && !c.evicted && may(c) && c.payer() == payer && c.source == source && (most == nil || c.charged > most.charged) {
			most = c
		}
	}
	return most
}

// stalest is the connection that said nothing for the longest, of the parties
// that have the most connections, if that is more than that many; nil when there
// is none.
func (l *Loop) stalest(of func(c *Conn) *party, more int) (stalest *Conn) {
	most := l.heaviest(of, func(*Conn) int64 { return 1 })
	if most == nil || most.sum <= int64(more) {
		return nil
	}
	for _, c := range l.conns {
		if c == nil || c.dead || c.evicted {
			continue
		}
		if p := of(c); p != nil && p.sum == most.sum && (stalest == nil || c.last.Before(stalest.last)) {
			stalest = c
		}
	}
	return stalest
}

const (
	// Turns: how many requests of a party, of a source of strangers, and of all
	// strangers together run in a round, and for how long.
	partyTurn     = 512
	strangerTurn  = 32
	strangersTurn = 512
	turnTime      = 2 * time.Millisecond
)

// turn is what has run of somebody in a round.
type turn struct {
	round uint64
	ran   int
	took  time.Duration
}

func (t *turn) in(round uint64) *turn {
	if t.round != round {
		*t = turn{round: round}
	}
	return t
}

func (t *turn) over(most int) bool { return t.ran >= most || t.took >= turnTime }

// spent says that c has to wait: its party has had its turn in this round.
func (l *Loop) spent(c *Conn) bool {
	most := partyTurn
	if c.stranger {
		most = strangerTurn
		if l.strangers.turn.in(l.count.Rounds).over(strangersTurn) {
			return true
		}
	}
	return c.payer().turn.in(l.count.Rounds).over(most)
}

// spend counts requests of c.
func (l *Loop) spend(c *Conn, requests int, took time.Duration) {
	if c.stranger {
		t := l.strangers.turn.in(l.count.Rounds)
		t.ran, t.took = t.ran+requests, t.took+took
	}
	t := c.payer().turn.in(l.count.Rounds)
	t.ran, t.took = t.ran+requests, t.took+took
}
