package zdb

import (
	"time"

	"github.com/croft-edge/croft/pkg/resp"
	"github.com/croft-edge/croft/zdb/cursor"
	"github.com/croft-edge/croft/zdb/store"
)

const (
	// scanTime is how long a page of SCAN may take, as in 0-db.
	scanTime = 2 * time.Millisecond
	// scanLook is after how many rows the time is checked.
	scanLook = 16
	// scanRows is how many rows a page has at most.
	scanRows = 8192
)

// pages answers commands that walk over a namespace's entries.
type pages struct {
	v1, debug bool // see Config
	dialect   cursor.Dialect
	upkeep    *upkeep
	most      int           // rows of a page
	time      time.Duration // for a page
	// rows and last are reused from one command to the next.
	rows, last []byte
}

func newPages(cfg Config, d cursor.Dialect, u *upkeep) *pages {
	return &pages{v1: cfg.Compat == CompatV1, debug: cfg.Debug, dialect: d, upkeep: u, most: scanRows, time: scanTime}
}

func (p *pages) scan(c *session, args [][]byte)     { p.page(c, args, false) }
func (p *pages) scanBack(c *session, args [][]byte) { p.page(c, args, true) }

// page answers rows and the cursor of the last one.
func (p *pages) page(c *session, args [][]byte, back bool) {
	e, found, ok := p.firstRow(c, args, back)
	if !ok {
		return
	}
	if !found {
		c.fail("No more data")
		return
	}
	begun, rows := time.Now(), 0
	p.rows, p.last = p.rows[:0], p.last[:0]
	for found {
		p.rows = appendRow(p.rows, &e)
		p.last = p.dialect.Append(p.last[:0], &e)
		rows++
		if rows >= p.most || rows%scanLook == 0 && time.Since(begun) >= p.time {
			break
		}
		file := e.Position.File
		var err error
		if e, found, err = walk(c.ns.store, e, back); err != nil {
			p.upkeep.failed(c, "SCAN", err)
			return
		}
		// The server of March 2020 ends a page of RSCAN where a file ends.
		if back && p.v1 && found && e.Position.File != file {
			break
		}
	}
	c.array(2)
	c.bulk(p.last)
	c.array(rows)
	c.conn.Out = append(c.conn.Out, p.rows...)
}

// firstRow is the first entry of a page; ok is false when it answered an error.
func (p *pages) firstRow(c *session, args [][]byte, back bool) (e store.Entry, found, ok bool) {
	var err error
	switch {
	case len(args) > 1:
		var valid bool
		e, valid, err = p.cursorEntry(c.ns.store, args[1])
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
		p.upkeep.failed(c, "SCAN", err)
	}
	return e, found, err == nil
}

// cursorEntry is the entry of a cursor. That may be deleted, or even cleaned away: then
// the nearest place is enough.
func (p *pages) cursorEntry(st *store.Store, given []byte) (e store.Entry, valid bool, err error) {
	cur, ok := p.dialect.Read(given)
	if !ok {
		return store.Entry{}, false, nil
	}
	e, kept, err := st.At(cur.At)
	if err != nil || kept {
		return e, err == nil && cur.Matches(&e), err
	}
	return st.Near(cur.At)
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

func (p *pages) keyCursor(c *session, args [][]byte) {
	e, found, err := c.ns.store.Lookup(args[1])
	switch {
	case err != nil:
		p.upkeep.failed(c, "KEYCUR", err)
	case !found:
		c.fail("Key not found")
	default:
		p.last = p.dialect.Append(p.last[:0], &e)
		c.bulk(p.last)
	}
}

// keysOf is KSCAN: all keys with a prefix. It walks over all of them, so it is
// for debugging only.
func (p *pages) keysOf(c *session, args [][]byte) {
	switch {
	case !p.debug:
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
	p.rows = p.rows[:0]
	e, found, err := c.ns.store.First()
	for err == nil && found {
		if hasPrefix(e.Key, args[1]) {
			p.rows = resp.AppendBulk(p.rows, e.Key)
			rows++
		}
		if int64(len(p.rows)) > room {
			c.fail("Reply too large, ask for a longer prefix")
			return
		}
		e, found, err = c.ns.store.Next(e)
	}
	switch {
	case err != nil:
		p.upkeep.failed(c, "KSCAN", err)
	case rows == 0:
		c.fail("No keys match")
	default:
		c.array(2)
		c.text("0")
		c.array(rows)
		c.conn.Out = append(c.conn.Out, p.rows...)
	}
}

func hasPrefix(key, prefix []byte) bool {
	return len(key) >= len(prefix) && string(key[:len(prefix)]) == string(prefix)
}
