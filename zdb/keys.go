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

// writes says whether c may write to its namespace now, and answers if not.
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

func (s *Server) unix(c *session) uint32 { return uint32(c.conn.Now().Unix()) }

func (s *Server) set(c *session, args [][]byte) {
	at := s.unix(c)
	switch len(args) {
	case 3:
	case 4:
		if !c.admin {
			s.denied(c)
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
		s.failed(c, "SET", err)
	case !wrote:
		// The server of March 2020 compares the crc, the other one what is on disk.
		if s.cfg.Compat == CompatV2 {
			s.count.read += uint64(len(args[2]))
		}
		c.null()
	default:
		c.bulk(id)
		s.counted(len(id), len(args[2]), ns.Mode == ModeSequential && len(args[1]) > 0)
		s.wrote(c)
	}
}

// counted adds to what 0-db would have written for a value. What updates an id
// has two entries of the index.
func (s *Server) counted(key, value int, update bool) {
	s.count.written += uint64(int(s.dialect.layout.DataEntry) + key + value)
	entry := uint64(int(s.dialect.layout.IndexEntry) + key)
	s.count.indexed += entry
	if update {
		s.count.indexed += entry
	}
}

// failed answers an error of the store.
func (s *Server) failed(c *session, what string, err error) {
	switch {
	case errors.Is(err, store.ErrNoSpace):
		c.fail("No space left on this namespace")
	case errors.Is(err, store.ErrDiskFull):
		s.count.writeErrors++
		c.ns.errors++
		c.ns.lastError = uint64(s.now().Unix())
		s.rare.Error().Err(err).Str("namespace", c.ns.Name).Str("command", what).Msg("the disk is full")
		c.fail("No space left on the disk of this server")
		s.stir(c.ns) // what was deleted may be cleaned
	case errors.Is(err, store.ErrWorm):
		c.fail("Namespace is protected by worm mode")
	case errors.Is(err, store.ErrUnknownID):
		c.fail("Invalid key, only update authorized")
	case errors.Is(err, store.ErrFull):
		c.fail("No memory left for keys on this server")
	default:
		s.count.readErrors++
		c.ns.errors++
		c.ns.lastError = uint64(s.now().Unix())
		s.rare.Error().Err(err).Str("namespace", c.ns.Name).Str("command", what).Msg("zdb command failed")
		c.fail(textInternal)
	}
}

func (s *Server) del(c *session, args [][]byte) {
	at := s.unix(c)
	switch {
	case len(args) == 2:
	case len(args) == 3 && s.cfg.Compat == CompatV2:
		if !c.admin {
			s.denied(c)
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
		s.failed(c, "DEL", err)
	case !there:
		c.fail("Key not found")
	default:
		c.ok()
		s.count.written += uint64(int(s.dialect.layout.DataEntry) + len(args[1]))
		s.wrote(c)
	}
}

func (s *Server) get(c *session, args [][]byte) { s.value(c, "GET", args[1]) }

// value answers a key's value, or that there is none.
func (s *Server) value(c *session, what string, key []byte) {
	value, found, err := c.ns.store.Get(key)
	switch {
	case err != nil:
		s.failed(c, what, err)
	case !found:
		c.null()
	default:
		s.count.read += uint64(len(value))
		c.bulk(value)
	}
}

func (s *Server) mget(c *session, args [][]byte) {
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
		s.value(c, "MGET", key)
		if int64(len(c.conn.Out)-before) > room {
			c.conn.Out = resp.AppendError(c.conn.Out[:before], "Reply too large, ask for fewer keys")
			return
		}
	}
}

func (s *Server) exists(c *session, args [][]byte) {
	_, found, err := c.ns.store.Lookup(args[1])
	switch {
	case err != nil:
		s.failed(c, "EXISTS", err)
	case found:
		c.number(1)
	default:
		c.number(0)
	}
}

func (s *Server) check(c *session, args [][]byte) {
	value, found, err := c.ns.store.Get(args[1])
	switch {
	case errors.Is(err, store.ErrDamaged):
		c.number(0)
	case err != nil:
		s.failed(c, "CHECK", err)
	case !found:
		c.null()
	default:
		s.count.read += uint64(len(value))
		c.number(1)
	}
}

func (s *Server) length(c *session, args [][]byte) {
	s.lookup(c, "LENGTH", args[1], func(e store.Entry) int64 { return int64(e.Length) })
}

func (s *Server) keytime(c *session, args [][]byte) {
	s.lookup(c, "KEYTIME", args[1], func(e store.Entry) int64 { return int64(e.Time) })
}

// lookup answers a number of a key's entry.
func (s *Server) lookup(c *session, what string, key []byte, of func(store.Entry) int64) {
	e, found, err := c.ns.store.Lookup(key)
	switch {
	case err != nil:
		s.failed(c, what, err)
	case !found:
		c.null()
	default:
		c.number(of(e))
	}
}

// number reads what C's atoll would: blanks, a sign, digits, and then anything.
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
