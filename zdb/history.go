package zdb

import (
	"strconv"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/resp"
	"github.com/croft-edge/croft/zdb/store"
)

// history answers a version of a key, and the position of the one before it.
func (s *Server) history(c *session, args [][]byte) {
	switch {
	case len(args) != 2 && len(args) != 3:
		c.fail("Invalid arguments")
	case len(args[1]) > mostKey:
		c.fail("Invalid key")
	case c.ns.refuse != "":
		c.fail(c.ns.refuse)
	case len(args) == 2:
		s.newest(c, args[1])
	default:
		s.older(c, args[1], args[2])
	}
}

func (s *Server) newest(c *session, key []byte) {
	e, found, err := c.ns.store.Lookup(key)
	switch {
	case err != nil:
		s.failed(c, "HISTORY", err)
	case !found:
		c.fail("Key not found")
	default:
		s.version(c, &e)
	}
}

func (s *Server) older(c *session, key, position []byte) {
	at, ok := s.dialect.readPosition(position)
	if !ok {
		c.fail("Invalid arguments")
		return
	}
	if at == (store.Position{}) {
		c.fail("No more history")
		return
	}
	e, found, err := c.ns.store.At(at)
	switch {
	case err != nil:
		s.failed(c, "HISTORY", err)
	case !found:
		c.fail("Invalid arguments (index query)")
	case e.Key == nil:
		c.fail("No more history")
	case string(e.Key) != string(key):
		c.fail("Invalid arguments (invalid key)")
	default:
		s.version(c, &e)
	}
}

// version answers an entry with its value. Old ones may be gone: what was
// overwritten stays only as long as its space isn't needed.
func (s *Server) version(c *session, e *store.Entry) {
	parent, older, err := c.ns.store.Parent(*e)
	if err != nil {
		s.failed(c, "HISTORY", err)
		return
	}
	value, err := c.ns.store.Value(*e)
	if errors.Is(err, store.ErrGone) {
		c.fail("No more history")
		return
	}
	if err != nil {
		s.failed(c, "HISTORY", err)
		return
	}
	c.array(3)
	if older {
		s.last = s.dialect.appendPosition(s.last[:0], parent.Position)
		c.bulk(s.last)
	} else {
		c.null()
	}
	s.last = strconv.AppendUint(s.last[:0], uint64(e.Time), 10)
	c.bulk(s.last)
	c.conn.Out = resp.AppendBulk(c.conn.Out, value)
}
