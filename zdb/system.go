package zdb

import (
	"bytes"
	"fmt"
	"math"
	"strconv"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/zdb/store"
)

func (s *Server) ping(c *session, _ [][]byte) { c.line("PONG") }

func (s *Server) asterisk(c *session, _ [][]byte) { c.fail("This is not a valid command") }

func (s *Server) clock(c *session, _ [][]byte) {
	now := s.now()
	c.array(2)
	c.text(strconv.FormatInt(now.Unix(), 10))
	c.text(strconv.Itoa(now.Nanosecond() / 1000))
}

// stop is STOP, for debugging: the server ends.
func (s *Server) stop(c *session, _ [][]byte) {
	if !s.cfg.Debug {
		c.fail("Unauthorized")
		return
	}
	if !c.admin {
		s.denied(c)
		return
	}
	c.line("Stopping")
	c.conn.CloseAfter()
	if s.cfg.Stop != nil {
		s.cfg.Stop()
	}
}

// mirror is MIRROR, which would send all that every client does.
func (s *Server) mirror(c *session, _ [][]byte) { c.fail("MIRROR is not supported by this server") }

// master greets as 0-db does, and changes nothing: 0-db would tell this
// connection the passwords of namespaces.
func (s *Server) master(c *session, _ [][]byte) { c.line("Hello, master") }

func (s *Server) index(c *session, args [][]byte) {
	switch {
	case len(args) < 2:
		c.fail("Missing arguments")
	case !bytes.EqualFold(args[1], []byte("DIRTY")):
		c.fail("Unknown INDEX subcommand")
	case c.ns.broken():
		c.fail(textBroken)
	case len(args) == 3 && bytes.EqualFold(args[2], []byte("RESET")):
		c.ns.store.ResetDirty()
		c.ok()
	case len(args) == 3:
		c.fail("Unknown INDEX DIRTY subcommand")
	default:
		files := c.ns.store.Dirty()
		c.array(len(files))
		for _, f := range files {
			c.number(int64(f))
		}
	}
}

// raw is DATA RAW: an entry of the data by where 0-db would have it.
func (s *Server) raw(c *session, args [][]byte) {
	switch {
	case len(args) < 2:
		c.fail("Missing arguments")
	case !bytes.EqualFold(args[1], []byte("RAW")):
		c.fail("Unknown DATA subcommand")
	case len(args) < 4:
		c.fail("Missing arguments")
	case c.ns.broken():
		c.fail(textBroken)
	default:
		s.rawEntry(c, number(args[2]), number(args[3]))
	}
}

func (s *Server) rawEntry(c *session, file, offset int64) {
	if file < 0 || offset < 0 || file > math.MaxUint32 || offset > math.MaxUint32 {
		c.fail("Invalid Request")
		return
	}
	e, err := c.ns.store.Raw(uint32(file), uint32(offset))
	switch {
	case errors.Is(err, store.ErrEOF):
		c.fail("EOF")
		return
	case errors.Is(err, store.ErrOffset), errors.Is(err, store.ErrGone):
		c.fail("Invalid Request")
		return
	case err != nil:
		s.failed(c, "DATA RAW", err)
		return
	}
	flags := int64(0)
	if e.Deleted {
		flags = 1
	}
	c.array(6)
	c.bulk(e.Key)
	c.number(int64(e.Previous))
	c.text(fmt.Sprintf("0x%08x", e.CRC))
	c.number(flags)
	c.number(int64(e.Time))
	c.bulk(e.Value)
}

func (s *Server) dbsize(c *session, _ [][]byte) {
	if c.ns.broken() {
		c.fail(textBroken)
		return
	}
	c.number(int64(c.ns.store.Stats().Entries))
}

// nsjump goes on to the next file, as 0-db would when one is full.
func (s *Server) nsjump(c *session, _ [][]byte) {
	if c.ns.broken() {
		c.fail(textBroken)
		return
	}
	if err := c.ns.store.Rotate(); err != nil {
		s.failed(c, "NSJUMP", err)
		return
	}
	s.count.written += uint64(s.dialect.layout.DataHeader)
	s.count.indexed += 2 * uint64(s.dialect.layout.IndexHeader)
	c.ok()
	s.wrote(c)
}
