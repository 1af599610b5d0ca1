package zdb

import (
	"github.com/croft-edge/croft/pkg/resp"
	"github.com/croft-edge/croft/zdb/loop"
)

// session is the server's state of a connection.
type session struct {
	conn *loop.Conn
	ns   *namespace
	// writable was decided when the namespace was selected.
	writable bool
	admin    bool
	// authed is true after AUTH with the admin's password.
	authed bool
	// proven is true if it gave its namespace's password with SELECT.
	proven bool
	// challenge is the last one that AUTH gave out, "" for none.
	challenge string
	// wrong counts its wrong passwords.
	wrong int
	// waiting is set while WAIT holds the connection.
	waiting *wait
	// held is set while a delayed check of a password holds the connection.
	held *attempt
}

// stand tells the loop c's standing in ns. It returns false when there is no place
// for it there.
func (c *session) stand(ns *namespace, writable, proven bool) bool {
	standing := loop.Standing{Known: proven || c.authed, Stranger: ns.number == 0 && !writable && !c.admin}
	if ns.number != 0 {
		standing.Group = ns.Name
	}
	return c.conn.Stand(standing)
}

func (c *session) ok()            { c.conn.Out = append(c.conn.Out, "+OK\r\n"...) }
func (c *session) null()          { c.conn.Out = resp.AppendNull(c.conn.Out) }
func (c *session) bulk(b []byte)  { c.conn.Out = resp.AppendBulk(c.conn.Out, b) }
func (c *session) text(s string)  { c.conn.Out = resp.AppendBulkString(c.conn.Out, s) }
func (c *session) number(n int64) { c.conn.Out = resp.AppendInt(c.conn.Out, n) }
func (c *session) array(n int)    { c.conn.Out = resp.AppendArray(c.conn.Out, n) }
func (c *session) fail(s string)  { c.conn.Out = resp.AppendError(c.conn.Out, s) }
func (c *session) line(s string)  { c.conn.Out = resp.AppendSimple(c.conn.Out, s) }

// hears reports whether c is told of a namespace: an admin of all, others of public
// ones and of their own.
func (c *session) hears(ns *namespace) bool {
	return ns != nil && (c.admin || !ns.Private || ns == c.ns)
}
