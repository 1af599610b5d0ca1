package zdb

import (
	"context"

	"github.com/pkg/errors"
)

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

// Stats asks the loop's thread. It may be called from any goroutine, and fails
// when ctx is done before, or the loop has ended.
func (s *Server) Stats(ctx context.Context) (Stats, error) {
	if err := ctx.Err(); err != nil {
		return Stats{}, errors.Wrap(err, "cannot tell of the zdb")
	}
	got := make(chan Stats, 1)
	if s.loop == nil || !s.loop.Post(func() { got <- s.stats() }) {
		return Stats{}, errors.New("cannot tell of the zdb: it doesn't run")
	}
	select {
	case st := <-got:
		return st, nil
	case <-ctx.Done():
		return Stats{}, errors.Wrap(ctx.Err(), "cannot tell of the zdb")
	}
}

func (s *Server) stats() Stats {
	st := Stats{
		Sessions: s.sessions, Clients: s.count.clients, Commands: map[string]uint64{},
		Unknown: s.count.unknown, Unauthorized: s.count.unauthorized, WrongPasswords: s.count.wrong,
		Read: s.count.read, Written: s.count.written, ReadErrors: s.count.readErrors, WriteErrors: s.count.writeErrors,
		Waiting: len(s.waiting), Memory: s.memory, Damaged: len(s.taken),
	}
	for i, c := range s.table.all {
		st.Commands[c.name] = s.count.commands[i]
	}
	for _, ns := range s.slots {
		switch {
		case ns == nil:
		case ns.broken():
			st.Damaged++
		default:
			is := ns.store.Stats()
			st.Namespaces = append(st.Namespaces, NamespaceStats{
				Name: ns.Name, Mode: ns.Mode, Entries: is.Entries, Bytes: is.DataBytes, Limit: ns.limit(s),
				Disk: is.Disk, Memory: is.Memory, Errors: ns.errors, Faults: is.Damaged,
			})
		}
	}
	return st
}
