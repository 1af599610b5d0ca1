package zdb

import (
	"time"

	"github.com/croft-edge/croft/pkg/resp"
	"github.com/croft-edge/croft/zdb/loop"
)

// session is what is known of a connection.
type session struct {
	conn *loop.Conn
	ns   *namespace
	// writable was decided when the namespace was selected.
	writable bool
	admin    bool
	// authed says that it gave the admin's password.
	authed bool
	// proven says that its namespace has a password, and it gave that.
	proven bool
	// challenge is the last one that was given, "" for none.
	challenge string
	// wrong is how many wrong passwords came.
	wrong int
	// waiting is set while WAIT holds the connection.
	waiting *wait
	// held is set while a try of a password holds it.
	held *heldTry
}

// stand tells the loop what is known of c, in ns. It says false when there is no
// place for it there.
func (c *session) stand(ns *namespace, writable, proven bool) bool {
	standing := loop.Standing{Known: proven || c.authed, Stranger: ns.number == 0 && !writable && !c.admin}
	if ns.number != 0 {
		standing.Group = ns.Name
	}
	return c.conn.Stand(standing)
}

// wait is what a connection waits for.
type wait struct {
	// for any command when it is nil.
	command *command
	until   time.Time
}

func (c *session) ok()            { c.conn.Out = append(c.conn.Out, "+OK\r\n"...) }
func (c *session) null()          { c.conn.Out = resp.AppendNull(c.conn.Out) }
func (c *session) bulk(b []byte)  { c.conn.Out = resp.AppendBulk(c.conn.Out, b) }
func (c *session) text(s string)  { c.conn.Out = resp.AppendBulkString(c.conn.Out, s) }
func (c *session) number(n int64) { c.conn.Out = resp.AppendInt(c.conn.Out, n) }
func (c *session) array(n int)    { c.conn.Out = resp.AppendArray(c.conn.Out, n) }
func (c *session) fail(s string)  { c.conn.Out = resp.AppendError(c.conn.Out, s) }
func (c *session) line(s string)  { c.conn.Out = resp.AppendSimple(c.conn.Out, s) }
