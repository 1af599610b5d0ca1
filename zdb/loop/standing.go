package loop

// Standing is the handler's view of a connection. It decides how the connection shares
// places, turns and buffers with others. A new connection has the zero value.
// Connections of an admin's listener have separate places and buffers, and need none.
type Standing struct {
	// Group names the connections with which it shares places and turns, such as the
	// clients of a namespace; "" for none: it shares with its source.
	Group string
	// Known is true for a client that has given a password.
	Known bool
	// Stranger is true for a client that may not write and has selected nothing: its
	// requests must be small, and it is closed when it is silent for a while, or when
	// a place is needed.
	Stranger bool
}

// member is a connection's part in the shared limits.
type member struct {
	source, group   *party
	known, stranger bool // see Standing
	charged         int  // bytes of its buffers that are counted in the sums
}

// payer is the party that its turns count for.
func (m *member) payer() *party {
	if m.group != nil {
		return m.group
	}
	return m.source
}

// Stand changes c's standing. It returns false, and changes nothing, when there is no
// place for it in the group.
func (c *Conn) Stand(s Standing) bool {
	if c.places == nil || c.life.dead || c.Admin {
		return true
	}
	return c.places.stand(c, s)
}

// Source is the source that c's address belongs to, see limit.Source.
func (c *Conn) Source() string { return c.member.source.title() }

// Room is how many bytes may be appended to Out before the buffers are too large,
// and a connection is closed for it.
func (c *Conn) Room() int64 {
	if c.places == nil || c.Admin {
		return ConnectionBuffers.Each
	}
	return c.places.room(c)
}
