package zdb

import (
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/zdb/hooks"
)

// management are the commands that make, change and remove namespaces.
type management struct {
	v2       bool // see Config.Compat
	oneMode  bool // Config.Mode is set
	most     int  // Config.MaxNamespaces
	log      zerolog.Logger
	all      *namespaces
	hooks    *hooks.Runner
	waits    *waits
	upkeep   *upkeep
	counters *counters
}

// named is the namespace of a name; nil after the answer that there is none.
func (m *management) named(c *session, name []byte) *namespace { return named(c, m.all, name) }

func named(c *session, all *namespaces, name []byte) *namespace {
	if len(name) > mostName {
		c.fail("Namespace too long")
		return nil
	}
	ns := all.named(name)
	if ns == nil {
		c.fail(textNotFound)
	}
	return ns
}

func (m *management) nsnew(c *session, args [][]byte) {
	name := args[1]
	switch {
	case len(name) > mostName:
		c.fail("Namespace too long")
		return
	case !validName(name):
		c.fail("This name is not allowed")
		return
	case m.all.named(name) != nil:
		c.fail("This namespace is not available")
		return
	case len(m.all.names) >= m.most:
		c.fail("Too many namespaces on this server")
		return
	}
	ns, err := m.all.create(m.all.free(), string(name))
	if err != nil {
		m.log.Error().Err(err).Str("namespace", string(name)).Msg("cannot make a namespace")
		c.fail("Could not create namespace")
		return
	}
	m.hooks.Run("namespace-created", ns.Name)
	c.ok()
}

// nsdel is NSDEL. Sessions that wait in the namespace hear of its end now, the others
// in it with their next command.
func (m *management) nsdel(c *session, args [][]byte) {
	if len(args[1]) > mostName {
		c.fail("Namespace too long")
		return
	}
	ns := m.all.named(args[1])
	switch {
	case string(args[1]) == defaultName:
		c.fail("Cannot remove default namespace")
		return
	case ns == nil:
		c.fail("This namespace doesn't exists")
		return
	case ns == c.ns:
		c.fail("Cannot remove namespace you're currently using.")
		return
	}
	if err := m.all.remove(ns); err != nil {
		m.log.Error().Err(err).Str("namespace", ns.Name).Msg("cannot remove a namespace")
		c.fail("Could not delete this namespace")
		return
	}
	m.waits.disband(ns)
	m.all.discard(ns)
	m.hooks.Run("namespace-deleted", ns.Name)
	c.ok()
}

// flush is FLUSH: it empties the namespace, atomically and durably.
func (m *management) flush(c *session, _ [][]byte) {
	ns := c.ns
	switch {
	case !ns.Private || ns.Password == "":
		c.fail("Flushing public namespace denied")
	case ns.broken() && !c.writable:
		c.fail(textReadOnly)
	case !ns.broken() && !writes(c):
	case ns.Worm:
		c.fail("Cannot flush a namespace in worm mode")
	default:
		if err := m.all.renew(ns, ns.Mode); err != nil {
			m.log.Error().Err(err).Str("namespace", ns.Name).Msg("cannot flush a namespace")
			c.fail(textInternal)
			return
		}
		c.ok()
	}
}

// reload is RELOAD.
func (m *management) reload(c *session, args [][]byte) {
	ns := m.named(c, args[1])
	if ns == nil {
		return
	}
	if !ns.broken() {
		m.upkeep.flushNow(ns) // others may wait for this round's writes
	}
	if !m.all.reload(ns) {
		c.fail(textBroken)
		return
	}
	m.hooks.Run("namespace-reloaded", ns.Name)
	c.ok()
}

func (m *management) nslist(c *session, _ [][]byte) {
	n := 0
	for _, ns := range m.all.slots {
		if c.hears(ns) {
			n++
		}
	}
	c.array(n)
	for _, ns := range m.all.slots {
		if c.hears(ns) {
			c.text(ns.Name)
		}
	}
}

// nsjump goes on to the next file, as 0-db does when one is full.
func (m *management) nsjump(c *session, _ [][]byte) {
	if c.ns.broken() {
		c.fail(textBroken)
		return
	}
	if err := c.ns.store.Rotate(); err != nil {
		m.upkeep.failed(c, "NSJUMP", err)
		return
	}
	m.counters.rotated(m.all.layout)
	c.ok()
	m.upkeep.wrote(c.ns)
}
