package zdb

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/zdb/hooks"
	"github.com/croft-edge/croft/zdb/store"
)

// system are the commands for operators and tools.
type system struct {
	debug  bool   // Config.Debug
	end    func() // Config.Stop
	now    func() time.Time
	count  *counters
	upkeep *upkeep
	hooks  *hooks.Runner
}

func (y *system) ping(c *session, _ [][]byte) { c.line("PONG") }

func (y *system) asterisk(c *session, _ [][]byte) { c.fail("This is not a valid command") }

func (y *system) clock(c *session, _ [][]byte) {
	now := y.now()
	c.array(2)
	c.text(strconv.FormatInt(now.Unix(), 10))
	c.text(strconv.Itoa(now.Nanosecond() / 1000))
}

// stop is STOP, for debugging: the server ends.
func (y *system) stop(c *session, _ [][]byte) {
	if !y.debug {
		c.fail("Unauthorized")
		return
	}
	if !c.admin {
		denied(c, y.count)
		return
	}
	c.line("Stopping")
	c.conn.CloseAfter()
	if y.end != nil {
		y.end()
	}
}

// mirror is MIRROR, which in 0-db sends all commands of all clients.
func (y *system) mirror(c *session, _ [][]byte) { c.fail("MIRROR is not supported by this server") }

// master greets as 0-db does, and changes nothing: 0-db would tell this
// connection the passwords of namespaces.
func (y *system) master(c *session, _ [][]byte) { c.line("Hello, master") }

func (y *system) index(c *session, args [][]byte) {
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

// raw is DATA RAW: an entry by its place in the files that 0-db would have.
func (y *system) raw(c *session, args [][]byte) {
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
		y.rawEntry(c, number(args[2]), number(args[3]))
	}
}

func (y *system) rawEntry(c *session, file, offset int64) {
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
		y.upkeep.failed(c, "DATA RAW", err)
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

func (y *system) dbsize(c *session, _ [][]byte) {
	if c.ns.broken() {
		c.fail(textBroken)
		return
	}
	c.number(int64(c.ns.store.Stats().Entries))
}

// hookList is HOOKS.
func (y *system) hookList(c *session, _ [][]byte) {
	list := y.hooks.List()
	c.array(len(list))
	for _, run := range list {
		c.array(6)
		c.text(run.Kind)
		c.array(len(run.Args))
		for _, a := range run.Args {
			c.text(a)
		}
		c.number(int64(run.PID))
		c.number(run.Created)
		c.number(run.Finished)
		c.number(int64(run.Status))
	}
}
