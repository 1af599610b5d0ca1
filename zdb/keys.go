package zdb

import (
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/resp"
	"github.com/croft-edge/croft/zdb/store"
)

const mostKey = 255

const (
	textFrozen   = "Namespace is temporarily frozen (read-write disabled)"
	textLocked   = "Namespace is temporarily locked (read-only)"
	textReadOnly = "Namespace is in read-only mode"
	textInternal = "Internal Error"
)

// keyCommands read and write values by their keys.
type keyCommands struct {
	v2     bool // see Config.Compat
	layout store.Layout
	count  *counters
	upkeep *upkeep
}

// writes reports whether c may write to its namespace now, and answers if not.
func writes(c *session) bool {
	switch {
	case !c.writable:
		c.fail(textReadOnly)
	case c.ns.refuse != "":
		c.fail(c.ns.refuse)
	case c.ns.locked:
		c.fail(textLocked)
	default:
		return true
	}
	return false
}

func unixNow(c *session) uint32 { return uint32(c.conn.Now().Unix()) }

func (k *keyCommands) set(c *session, args [][]byte) {
	at := unixNow(c)
	switch len(args) {
	case 3:
	case 4:
		if !c.admin {
			denied(c, k.count)
			return
		}
		at = uint32(number(args[3]))
	default:
		c.fail("Unexpected arguments")
		return
	}
	if len(args[1]) > mostKey {
		c.fail("Key too large")
		return
	}
	if !writes(c) {
		return
	}
	ns := c.ns
	if len(args[1]) == 0 && ns.Mode == ModeUser {
		c.fail("Invalid argument, key needed")
		return
	}
	id, wrote, err := ns.store.Set(args[1], args[2], store.SetOptions{At: at, Worm: ns.Worm})
	switch {
	case err != nil:
		k.upkeep.failed(c, "SET", err)
	case !wrote:
		// The server of March 2020 compares the crc, 0-db 2.0.7 reads the value on disk.
		if k.v2 {
			k.count.read += uint64(len(args[2]))
		}
		c.null()
	default:
		c.bulk(id)
		k.counted(len(id), len(args[2]), ns.Mode == ModeSequential && len(args[1]) > 0)
		k.upkeep.wrote(c.ns)
	}
}

// counted adds the bytes that 0-db would have written for a value. An update of an id
// has two entries of the index.
func (k *keyCommands) counted(key, value int, update bool) {
	k.count.written += uint64(int(k.layout.DataEntry) + key + value)
	entry := uint64(int(k.layout.IndexEntry) + key)
	k.count.indexed += entry
	if update {
		k.count.indexed += entry
	}
}

func (k *keyCommands) del(c *session, args [][]byte) {
	at := unixNow(c)
	switch {
	case len(args) == 2:
	case len(args) == 3 && k.v2:
		if !c.admin {
			denied(c, k.count)
			return
		}
		at = uint32(number(args[2]))
	default:
		c.fail("Unexpected arguments")
		return
	}
	switch {
	case len(args[1]) == 0:
		c.fail("Invalid argument")
		return
	case len(args[1]) > mostKey:
		c.fail("Invalid key")
		return
	case !writes(c):
		return
	case c.ns.Worm:
		c.fail("Cannot delete a key when namespace is in worm mode")
		return
	}
	there, err := c.ns.store.Delete(args[1], at)
	switch {
	case err != nil:
		k.upkeep.failed(c, "DEL", err)
	case !there:
		c.fail("Key not found")
	default:
		c.ok()
		k.count.written += uint64(int(k.layout.DataEntry) + len(args[1]))
		k.upkeep.wrote(c.ns)
	}
}

func (k *keyCommands) get(c *session, args [][]byte) { k.value(c, "GET", args[1]) }

// value answers a key's value, or that there is none.
func (k *keyCommands) value(c *session, what string, key []byte) {
	value, found, err := c.ns.store.Get(key)
	switch {
	case err != nil:
		k.upkeep.failed(c, what, err)
	case !found:
		c.null()
	default:
		k.count.read += uint64(len(value))
		c.bulk(value)
	}
}

func (k *keyCommands) mget(c *session, args [][]byte) {
	if len(args) < 2 {
		c.fail("Invalid arguments")
		return
	}
	for _, key := range args[1:] {
		if len(key) > mostKey {
			c.fail("Invalid key")
			return
		}
	}
	if c.ns.refuse != "" {
		c.fail(c.ns.refuse)
		return
	}
	before, room := len(c.conn.Out), c.conn.Room()
	c.array(len(args) - 1)
	for _, key := range args[1:] {
		k.value(c, "MGET", key)
		if int64(len(c.conn.Out)-before) > room {
			c.conn.Out = resp.AppendError(c.conn.Out[:before], "Reply too large, ask for fewer keys")
			return
		}
	}
}

func (k *keyCommands) exists(c *session, args [][]byte) {
	_, found, err := c.ns.store.Lookup(args[1])
	switch {
	case err != nil:
		k.upkeep.failed(c, "EXISTS", err)
	case found:
		c.number(1)
	default:
		c.number(0)
	}
}

func (k *keyCommands) check(c *session, args [][]byte) {
	value, found, err := c.ns.store.Get(args[1])
	switch {
	case errors.Is(err, store.ErrDamaged):
		c.number(0)
	case err != nil:
		k.upkeep.failed(c, "CHECK", err)
	case !found:
		c.null()
	default:
		k.count.read += uint64(len(value))
		c.number(1)
	}
}

func (k *keyCommands) length(c *session, args [][]byte) {
	k.lookup(c, "LENGTH", args[1], func(e store.Entry) int64 { return int64(e.Length) })
}

func (k *keyCommands) keytime(c *session, args [][]byte) {
	k.lookup(c, "KEYTIME", args[1], func(e store.Entry) int64 { return int64(e.Time) })
}

// lookup answers a number of a key's entry.
func (k *keyCommands) lookup(c *session, what string, key []byte, of func(store.Entry) int64) {
	e, found, err := c.ns.store.Lookup(key)
	switch {
	case err != nil:
		k.upkeep.failed(c, what, err)
	case !found:
		c.null()
	default:
		c.number(of(e))
	}
}

// number reads a number as C's atoll does: blanks, a sign, digits, and then anything.
func number(b []byte) int64 {
	for len(b) > 0 && (b[0] == ' ' || b[0] >= '\t' && b[0] <= '\r') {
		b = b[1:]
	}
	negative := false
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		negative = b[0] == '-'
		b = b[1:]
	}
	var n int64
	for _, d := range b {
		if d < '0' || d > '9' {
			break
		}
		if n > (1<<63-1-9)/10 {
			n = 1<<63 - 1
			break
		}
		n = n*10 + int64(d-'0')
	}
	if negative {
		return -n
	}
	return n
}
