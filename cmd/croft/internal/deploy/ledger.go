package deploy

import (
	"slices"

	"github.com/croft-edge/croft/cmd/croft/internal/state"
)

// ledger is the project's state, written only under its lock; File is nil without a project.
type ledger struct {
	*state.File
	writable bool
}

func (l *ledger) save() error {
	if l.File == nil || !l.writable {
		return nil
	}
	return l.Save()
}

// holds reports whether an entry of the state has that ID.
func (l *ledger) holds(id string) bool {
	return slices.ContainsFunc(l.All(), func(e *state.Entry) bool { return e.ID == id })
}

// label is the project's name for a reservation, or its ID.
func (l *ledger) label(id string) string {
	if l.File != nil {
		for name, e := range l.Current {
			if e.ID == id {
				return name
			}
		}
	}
	return id
}

// relink makes the members of an updated network members of its new reservation.
func (l *ledger) relink(network *state.Entry) error {
	for _, e := range l.Current {
		if _, ok := e.Uses[network.Name]; ok {
			e.Uses[network.Name] = network.ID
		}
	}
	return l.save()
}

// find is the first current entry that is asked for; nil when there is none.
func (l *ledger) find(is func(e *state.Entry) bool) *state.Entry {
	for _, name := range l.Names() {
		if e := l.Current[name]; is(e) {
			return e
		}
	}
	return nil
}
