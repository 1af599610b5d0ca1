package loop

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// plainStalest is census.stalest as its comment says it, in steps.
func plainStalest(conns []*Conn, of func(c *Conn) *party, least int) *Conn {
	count := map[*party]int{}
	for _, c := range conns {
		if p := of(c); p != nil {
			count[p]++
		}
	}
	most := 0
	for _, n := range count {
		most = max(most, n)
	}
	if most <= least {
		return nil
	}
	among := slices.DeleteFunc(slices.Clone(conns), func(c *Conn) bool { p := of(c); return p == nil || count[p] != most })
	return slices.MinFunc(among, func(a, b *Conn) int { return a.socket.last.Compare(b.socket.last) })
}

// Searches of random tables of connections find what the definition says, one after
// another with the same parties.
func TestTheStalestIsFoundInOnePass(t *testing.T) {
	start := time.Now()
	for seed := range uint64(400) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 12))
			crowd := make([]*party, 1+r.IntN(12))
			for i := range crowd {
				crowd[i] = &party{name: fmt.Sprint("p", i)}
			}
			var conns table
			s := census{conns: &conns}
			var open []*Conn
			for i, fd := range r.Perm(1 + r.IntN(40)) {
				c := &Conn{}
				c.socket.fd, c.socket.last = fd, start.Add(time.Duration(r.IntN(1000))*time.Second+time.Duration(i))
				c.member.source, c.member.stranger = crowd[r.IntN(len(crowd))], r.IntN(3) > 0
				c.life.dead, c.life.evicted = r.IntN(10) == 0, r.IntN(10) == 0
				conns.add(c)
				if !c.life.dead && !c.life.evicted {
					open = append(open, c)
				}
			}
			for range 4 {
				least, strangers := r.IntN(4), r.IntN(2) == 0
				of := func(c *Conn) *party { return c.payerIf(c.member.stranger || !strangers) }
				got, want := s.stalest(of, least), plainStalest(open, of, least)
				if got != want {
					t.Fatalf("of %d connections of %d parties, with more than %d: found %+v, want %+v", len(open), len(crowd), least, got, want)
				}
				if got != nil {
					conns.remove(got)
					open = slices.DeleteFunc(open, func(c *Conn) bool { return c == got })
				}
			}
		})
	}
}
