package loop

import "github.com/croft-edge/croft/pkg/resp"

// Standing is what is known of a connection, which says what it may take from
// others. One that came in has the zero value; one that came over an admin's
// listener has places and buffers apart, and needs none.
type Standing struct {
	// Group are those with whom it shares places and turns, such as the clients of
	// a namespace; "" for none, and then it is its source.
	Group string
	// Known is who has given a password.
	Known bool
	// Stranger is who may neither write nor has chosen anything: its requests are
	// small ones, and when it says nothing for a while, or a place is needed, it goes.
	Stranger bool
}

// Stand changes c's standing. It says false, and changes nothing, when there is no
// place for it in the group.
func (c *Conn) Stand(s Standing) bool {
	if c.l == nil || c.dead || c.Admin {
		return true
	}
	l := c.l
	group := l.groups.join(s.Group)
	if group != nil && group != c.group && !l.placeIn(group, s.Known) || s.Known != c.known && !l.placeAs(c, s.Known) {
		l.groups.leave(group)
		return false
	}
	l.delist(c)
	c.group, c.known, c.stranger = group, s.Known, s.Stranger
	l.enlist(c)
	return true
}

// Source is whom c's address counts for, as limit.Source says.
func (c *Conn) Source() string { return c.source.title() }

// payer is whom c's turns count for.
func (c *Conn) payer() *party {
	if c.group != nil {
		return c.group
	}
	return c.source
}

func (c *Conn) limits() *resp.Limits {
	if c.stranger {
		return &c.l.strangers.limits
	}
	return &c.l.limits
}
