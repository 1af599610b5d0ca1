package loop

import "time"

// agenda lists the connections that need work in this round and in the next one.
type agenda struct {
	touched []*Conn // are looked at when this round ends
	turn    []*Conn // have requests that wait for the next round
	spare   []*Conn // the previous round's turn, for its memory
}

// schedule is a connection's place on the agenda.
type schedule struct {
	touched bool // is in agenda.touched
	queued  bool // is in agenda.turn
	later   bool // its input may hold complete requests
	unread  bool // its socket is readable and wasn't read for lack of a turn
}

// touch has c looked at when the round ends.
func (a *agenda) touch(c *Conn) {
	if !c.schedule.touched {
		c.schedule.touched = true
		a.touched = append(a.touched, c)
	}
}

// queue gives c a turn in the next round.
func (a *agenda) queue(c *Conn) {
	c.schedule.later = true
	if !c.schedule.queued {
		c.schedule.queued = true
		a.turn = append(a.turn, c)
	}
}

// waiting reports whether any connection waits for its turn.
func (a *agenda) waiting() bool { return len(a.turn) > 0 }

// turns starts the next list of turns and calls run for each connection of the
// present one.
func (a *agenda) turns(run func(c *Conn)) {
	turn := a.turn
	a.turn, a.spare = a.spare[:0], turn
	for i, c := range turn {
		turn[i] = nil
		c.schedule.queued = false
		if c.schedule.later && !c.life.dead {
			run(c)
		}
	}
}

// finish calls look for each touched connection, also for those touched meanwhile.
func (a *agenda) finish(look func(c *Conn)) {
	for i := 0; i < len(a.touched); i++ {
		c := a.touched[i]
		a.touched[i] = nil
		c.schedule.touched = false
		look(c)
	}
	a.touched = a.touched[:0]
}

const (
	// Requests that a party, a source of strangers, and all strangers together may
	// run in a round, and the time for each of these.
	partyTurn     = 512
	strangerTurn  = 32
	strangersTurn = 512
	turnTime      = 2 * time.Millisecond
)

// turn counts the requests of a party in a round.
type turn struct {
	round uint64
	ran   int
	took  time.Duration
}

// in returns t, reset if it counted an earlier round.
func (t *turn) in(round uint64) *turn {
	if t.round != round {
		*t = turn{round: round}
	}
	return t
}

func (t *turn) over(limit int) bool { return t.ran >= limit || t.took >= turnTime }

func (t *turn) add(requests int, took time.Duration) {
	t.ran, t.took = t.ran+requests, t.took+took
}

// fairness limits the requests of each party in a round.
type fairness struct {
	round     *round
	strangers turn // of all strangers together
}

// spent reports whether c has to wait: its party has had its turn in this round.
func (f *fairness) spent(c *Conn) bool {
	now, limit := f.round.count.Rounds, partyTurn
	if c.member.stranger {
		limit = strangerTurn
		if f.strangers.in(now).over(strangersTurn) {
			return true
		}
	}
	return c.member.payer().turn.in(now).over(limit)
}

// spend counts requests of c.
func (f *fairness) spend(c *Conn, requests int, took time.Duration) {
	now := f.round.count.Rounds
	if c.member.stranger {
		f.strangers.in(now).add(requests, took)
	}
	c.member.payer().turn.in(now).add(requests, took)
}
