package zdb

import "github.com/croft-edge/croft/zdb/store"

// Stats is a server's counters and sizes.
type Stats struct {
	// Sessions counts the present clients, Clients all clients since the start.
	Sessions int
	Clients  uint64
	// Commands counts the requests of each command, by name; Unknown those of no command,
	// Unauthorized those without the admin's rights that they need. WrongPasswords
	// counts those of AUTH and SELECT.
	Commands                              map[string]uint64
	Unknown, Unauthorized, WrongPasswords uint64
	// Read and Written are bytes of 0-db's data files, as INFO tells them.
	Read, Written uint64
	// ReadErrors and WriteErrors count the commands and rounds that the disk failed.
	ReadErrors, WriteErrors uint64
	// Waiting counts the clients in WAIT.
	Waiting int
	// Memory is the size of the keys' tables, in bytes.
	Memory uint64
	// Damaged counts the namespaces whose descriptor or data can't be read.
	Damaged    int
	Namespaces []NamespaceStats
}

// NamespaceStats is a namespace's counters and sizes.
type NamespaceStats struct {
	Name, Mode string
	// Entries counts the live entries, Bytes the bytes of their values.
	Entries, Bytes uint64
	// Limit is the maximum of Bytes, 0 for none.
	Limit uint64
	// Disk is the size of its files, Memory that of its keys' tables, in bytes.
	Disk, Memory uint64
	// Errors counts errors of the disk, Faults damaged records.
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

// addTo adds the namespaces' numbers.
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
