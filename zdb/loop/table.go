package loop

// table holds the open connections by file descriptor.
type table struct {
	byFD []*Conn
	open int
}

func (t *table) add(c *Conn) {
	for len(t.byFD) <= c.socket.fd {
		t.byFD = append(t.byFD, nil)
	}
	t.byFD[c.socket.fd] = c
	t.open++
}

func (t *table) remove(c *Conn) {
	t.byFD[c.socket.fd] = nil
	t.open--
}

// of is the connection of a file descriptor; nil for none.
func (t *table) of(fd int) *Conn {
	if fd >= len(t.byFD) {
		return nil
	}
	return t.byFD[fd]
}

// live iterates over the connections that don't close in this round.
func (t *table) live(yield func(c *Conn) bool) {
	for _, c := range t.byFD {
		if c != nil && !c.life.dead && !yield(c) {
			return
		}
	}
}

// candidates iterates over the live connections that aren't evicted either.
func (t *table) candidates(yield func(c *Conn) bool) {
	for _, c := range t.byFD {
		if c != nil && !c.life.dead && !c.life.evicted && !yield(c) {
			return
		}
	}
}
