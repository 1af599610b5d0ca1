package limit

import "sync"

// Places hands out a Limit's slots of a resource that can be taken back, such as
// connections: when all are taken, a new one gets a place of the key that has most, so
// that earlier keys shut nobody out. It may be used by several
// goroutines.
type Places struct {
	limit  Limit
	newest bool

	mu    sync.Mutex
	held  map[string][]*place // the oldest first
	total int64
	count uint64
}

// place is a taken place.
type place struct {
	key   string
	since uint64
	end   func()
}

// Places returns the slots of l, none of them taken. With newest, a key at its bound
// loses its oldest place to its newest; else it is refused.
// Kept has no meaning here.
func (l Limit) Places(newest bool) *Places {
	return &Places{limit: l, newest: newest, held: map[string][]*place{}}
}

// Take takes a place for key. When none is free, the key that has most loses its
// oldest place, by end, which must not block and not call Places: the key itself only
// with newest, and without newest only a key that still has as much as this one
// afterwards. The error is a *Full. give gives the place back, once; it does nothing
// after end.
func (p *Places) Take(key string, end func()) (give func(), err error) {
	mine := &place{key: key, end: end}
	p.mu.Lock()
	victim, err := p.room(key)
	if victim != nil || err != nil {
		p.limit.Reached()
	}
	if err != nil {
		p.mu.Unlock()
		return nil, err
	}
	if victim != nil {
		p.drop(victim)
	}
	p.count++
	mine.since = p.count
	p.held[key] = append(p.held[key], mine)
	p.total++
	p.mu.Unlock()
	if victim != nil {
		victim.end()
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.drop(mine)
	}, nil
}

// room returns the place that has to be ended for another one of key, nil for none.
// p.mu is held.
func (p *Places) room(key string) (*place, error) {
	own := p.held[key]
	switch {
	case p.limit.Each > 0 && int64(len(own)) >= p.limit.Each:
		if p.newest {
			return own[0], nil
		}
		return nil, &Full{Limit: p.limit}
	case p.limit.Total <= 0 || p.total < p.limit.Total:
		return nil, nil
	}
	most := p.most()
	if n := len(p.held[most.key]); p.newest || n > len(own)+1 {
		if n <= len(own) {
			return own[0], nil
		}
		return most, nil
	}
	return nil, &Full{Limit: p.limit, All: true}
}

// most is the oldest place of the key that has most; of several such keys, the
// oldest of all. p.mu is held, and there is a place.
func (p *Places) most() *place {
	var out *place
	for _, of := range p.held {
		if out == nil || len(of) > len(p.held[out.key]) || len(of) == len(p.held[out.key]) && of[0].since < out.since {
			out = of[0]
		}
	}
	return out
}

// drop forgets a place, which may be forgotten already. p.mu is held.
func (p *Places) drop(old *place) {
	of := p.held[old.key]
	for i, x := range of {
		if x != old {
			continue
		}
		p.total--
		if len(of) == 1 {
			delete(p.held, old.key)
			return
		}
		p.held[old.key] = append(of[:i:i], of[i+1:]...)
		return
	}
}

// Held is the number of key's places.
func (p *Places) Held(key string) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int64(len(p.held[key]))
}

// Total is the number of all places.
func (p *Places) Total() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total
}
