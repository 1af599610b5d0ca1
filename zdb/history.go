package zdb

import (
	"strconv"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/resp"
	"github.com/croft-edge/croft/zdb/cursor"
	"github.com/croft-edge/croft/zdb/store"
)

// history answers earlier versions of keys.
type history struct {
	dialect cursor.Dialect
	upkeep  *upkeep
	text    []byte // reused from one command to the next
}

// versions is HISTORY: it answers a version of a key, and the position of the one
// before it.
func (h *history) versions(c *session, args [][]byte) {
	switch {
	case len(args) != 2 && len(args) != 3:
		c.fail("Invalid arguments")
	case len(args[1]) > mostKey:
		c.fail("Invalid key")
	case c.ns.refuse != "":
		c.fail(c.ns.refuse)
	case len(args) == 2:
		h.newest(c, args[1])
	default:
		h.older(c, args[1], args[2])
	}
}

func (h *history) newest(c *session, key []byte) {
	e, found, err := c.ns.store.Lookup(key)
	switch {
	case err != nil:
		h.upkeep.failed(c, "HISTORY", err)
	case !found:
		c.fail("Key not found")
	default:
		h.version(c, &e)
	}
}

func (h *history) older(c *session, key, position []byte) {
	at, ok := h.dialect.ReadPosition(position)
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
		h.upkeep.failed(c, "HISTORY", err)
	case !found:
		c.fail("Invalid arguments (index query)")
	case e.Key == nil:
		c.fail("No more history")
	case string(e.Key) != string(key):
		c.fail("Invalid arguments (invalid key)")
	default:
		h.version(c, &e)
	}
}

// version answers an entry with its value. Old values may be gone: they are kept only
// until their space is needed.
func (h *history) version(c *session, e *store.Entry) {
	parent, older, err := c.ns.store.Parent(*e)
	if err != nil {
		h.upkeep.failed(c, "HISTORY", err)
		return
	}
	value, err := c.ns.store.Value(*e)
	if errors.Is(err, store.ErrGone) {
		c.fail("No more history")
		return
	}
	if err != nil {
		h.upkeep.failed(c, "HISTORY", err)
		return
	}
	c.array(3)
	if older {
		h.text = h.dialect.AppendPosition(h.text[:0], parent.Position)
		c.bulk(h.text)
	} else {
		c.null()
	}
	h.text = strconv.AppendUint(h.text[:0], uint64(e.Time), 10)
	c.bulk(h.text)
	c.conn.Out = resp.AppendBulk(c.conn.Out, value)
}
