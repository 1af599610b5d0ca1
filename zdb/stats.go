package zdb

import "github.com/croft-edge/croft/zdb/store"

// Stats is what a server has done, and what it has.
type Stats struct {
	// Sessions are the clients now, Clients those that ever were.
	Sessions int
	Clients  uint64
	// Commands are how often each was sent, by name. Unknown ones are none of them,
	// Unauthorized ones lacked an admin's rights. WrongPasswords were given to AUTH
	// and SELECT.
	Commands                              map[string]uint64
	Unknown, Unauthorized, WrongPasswords uint64
	// Read and Written are bytes of 0-db's data files, as INFO tells them.
	Read, Written uint64
	// ReadErrors and WriteErrors are commands and rounds that failed by the disk.
	ReadErrors, WriteErrors uint64
	// Waiting are the clients in WAIT.
	Waiting int
	// Memory is what keys take, in bytes.
	Memory uint64
	// Damaged are namespaces whose descriptor or data can't be read.
	Damaged    int
	Namespaces []NamespaceStats
}

// NamespaceStats is what a namespace has.
type NamespaceStats struct {
	Name, Mode string
	// Entries are those that live, Bytes their values.
	Entries, Bytes uint64
	// Limit is how many bytes of values there may be, 0 for no limit.
	Limit uint64
	// Disk is what its files take, Memory what its keys do, in bytes.
	Disk, Memory uint64
	// Errors are of the disk, Faults what was found damaged on it.
	Errors, Faults uint64
}

// counters are the counts in INFO and Stats.
type counters struct {
	clients, executed, unknown, unauthorized, wrong uint64
	// bytes that 0-db would have read and written of the data, and written of the
	// index.
	read, written, indexed  uint64
	readErrors, writeErrors uint64
	// commands are counts by the index of the table.
	commands []uint64
}

// rotated counts the headers of a new file.
func (c *counters) rotated(layout store.Layout) {
	c.written += uint64(layout.DataHeader)
	c.indexed += 2 * uint64(layout.IndexHeader)
}

// stats adds up the counts of a server with these commands.
func (c *counters) stats(commands []*command) Stats {
	st := Stats{
		Clients: c.clients, Commands: map[string]uint64{}, Unknown: c.unknown, Unauthorized: c.unauthorized, WrongPasswords: c.wrong,
		Read: c.read, Written: c.written, ReadErrors: c.readErrors, WriteErrors: c.writeErrors,
	}
	for i, cmd := range commands {
		st.Commands[cmd.name] = c.commands[i]
	}
	return st
}

// addTo adds what the namespaces have.
func (n *namespaces) addTo(st *Stats) {
	st.Memory, st.Damaged = n.memory.used, len(n.unreadable)
	for _, ns := range n.slots {
		switch {
		case ns == nil:
		case ns.broken():
			st.Damaged++
		default:
			is := ns.store.Stats()
			st.Namespaces = append(st.Namespaces, NamespaceStats{
				Name: ns.Name, Mode: ns.Mode, Entries: is.Entries, Bytes: is.DataBytes, Limit: n.limit(ns),
				Disk: is.Disk, Memory: is.Memory, Errors: ns.errors.count, Faults: is.Damaged,
			})
		}
	}
}
