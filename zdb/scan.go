package zdb

import (
	"time"

	"github.com/croft-edge/croft/pkg/resp"
	"github.com/croft-edge/croft/zdb/store"
)

const (
	// scanTime is how long a page of SCAN may take, as in 0-db.
	scanTime = 2 * time.Millisecond
	// scanLook is after how many rows the clock is looked at.
	scanLook = 16
	// scanRows is how many rows a page has at most.
	scanRows = 8192
)

func (s *Server) scan(c *session, args [][]byte)     { s.page(c, args, false) }
func (s *Server) scanBack(c *session, args [][]byte) { s.page(c, args, true) }

// page answers rows and the cursor of the last one.
func (s *Server) page(c *session, args [][]byte, back bool) {
	e, found, ok := s.firstRow(c, args, back)
	if !ok {
		return
	}
	if !found {
		c.fail("No more data")
		return
	}
	begun, rows := time.Now(), 0
	s.rows, s.last = s.rows[:0], s.last[:0]
	for found {
		s.rows = appendRow(s.rows, &e)
		s.last = s.dialect.appendCursor(s.last[:0], &e)
		rows++
		if rows >= s.scanRows || rows%scanLook == 0 && time.Since(begun) >= s.scanTime {
			break
		}
		file := e.Position.File
		var err error
		if e, found, err = walk(c.ns.store, e, back); err != nil {
			s.failed(c, "SCAN", err)
			return
		}
		// The server of March 2020 ends a page of RSCAN where a file ends.
		if back && s.cfg.Compat == CompatV1 && found && e.Position.File != file {
			break
		}
	}
	c.array(2)
	c.bulk(s.last)
	c.array(rows)
	c.conn.Out = append(c.conn.Out, s.rows...)
}

// firstRow is the first entry of a page; ok is false when it answered an error.
func (s *Server) firstRow(c *session, args [][]byte, back bool) (e store.Entry, found, ok bool) {
	var err error
	switch {
	case len(args) > 1:
		var valid bool
		e, valid, err = s.cursorEntry(c.ns.store, args[1])
		if err == nil && !valid {
			c.fail("Invalid key format")
			return store.Entry{}, false, false
		}
		if err == nil {
			e, found, err = walk(c.ns.store, e, back)
		}
	case back:
		e, found, err = c.ns.store.Last()
	default:
		e, found, err = c.ns.store.First()
	}
	if err != nil {
		s.failed(c, "SCAN", err)
	}
	return e, found, err == nil
}

// cursorEntry is where a cursor points to. What it points to may be deleted, and
// even be forgotten: then it is enough that there can have been something.
func (s *Server) cursorEntry(st *store.Store, given []byte) (e store.Entry, valid bool, err error) {
	cur, ok := s.dialect.readCursor(given)
	if !ok {
		return store.Entry{}, false, nil
	}
	e, kept, err := st.At(cur.at)
	if err != nil || kept {
		return e, err == nil && cur.of(&e), err
	}
	return st.Near(cur.at)
}

// walk is the live entry after e, or before it.
func walk(st *store.Store, e store.Entry, back bool) (store.Entry, bool, error) {
	if back {
		return st.Prev(e)
	}
	return st.Next(e)
}

func appendRow(dst []byte, e *store.Entry) []byte {
	dst = resp.AppendArray(dst, 3)
	dst = resp.AppendBulk(dst, e.Key)
	dst = resp.AppendInt(dst, int64(e.Length))
	return resp.AppendInt(dst, int64(e.Time))
}

func (s *Server) keyCursor(c *session, args [][]byte) {
	e, found, err := c.ns.store.Lookup(args[1])
	switch {
	case err != nil:
		s.failed(c, "KEYCUR", err)
	case !found:
		c.fail("Key not found")
	default:
		s.last = s.dialect.appendCursor(s.last[:0], &e)
		c.bulk(s.last)
	}
}

// keysOf is KSCAN: all keys with a prefix. It walks over all of them, so it is
// for debugging only.
func (s *Server) keysOf(c *session, args [][]byte) {
	switch {
	case !s.cfg.Debug:
		c.fail("Command disabled in release code, not yet available")
		return
	case c.ns.Mode != ModeUser:
		c.fail("Index running mode doesn't support this feature")
		return
	case len(args) != 2:
		c.fail("Unexpected arguments")
		return
	case len(args[1]) == 0:
		c.fail("Invalid argument")
		return
	case c.ns.refuse != "":
		c.fail(c.ns.refuse)
		return
	}
	rows, room := 0, c.conn.Room()
	s.rows = s.rows[:0]
	e, found, err := c.ns.store.First()
	for err == nil && found {
		if hasPrefix(e.Key, args[1]) {
			s.rows = resp.AppendBulk(s.rows, e.Key)
			rows++
		}
		if int64(len(s.rows)) > room {
			c.fail("Reply too large, ask for a longer prefix")
			return
		}
		e, found, err = c.ns.store.Next(e)
	}
	switch {
	case err != nil:
		s.failed(c, "KSCAN", err)
	case rows == 0:
		c.fail("No keys match")
	default:
		c.array(2)
		c.text("0")
		c.array(rows)
		c.conn.Out = append(c.conn.Out, s.rows...)
	}
}

func hasPrefix(key, prefix []byte) bool {
	return len(key) >= len(prefix) && string(key[:len(prefix)]) == string(prefix)
}
