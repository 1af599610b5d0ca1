package store

import (
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/store/persist"
)

// Clock is what the store needs of time. *clock.Trust is one.
type Clock interface {
	// Now is the time, and whether anything may be compared with it.
	Now() (time.Time, bool)
	// Read is the time, how far it can be trusted, and the node's uptime.
	Read() clock.Reading
}

// Config is what a store is opened with.
type Config struct {
	// Root is the folder of the store. Required, unless Disk is given.
	Root string
	// Disk is where the store's bytes go in the place of a folder: nobody else
	// may use it meanwhile. Nil is the folder Root.
	Disk persist.Provider
	// Log gets what the node's owner should know. The zero Logger says nothing.
	Log zerolog.Logger
	// NewNode says that the node has no past: its key was made just now. Its
	// new store then accepts older reservations, for none can name it. A node
	// that has a key but no store may have lost it: false.
	NewNode bool
	// Clock decides what has expired, for Counters and GetExpired, and what may
	// be forgotten. Nil is the machine's clock, trusted.
	Clock Clock
	// BirthClock dates the store's birth. It must not be what the explorer alone
	// says: see SetMark. Nil is Clock.
	BirthClock Clock
	// Demand says what a reservation takes, for Usage. What it can't tell takes
	// nothing: another version of croft admitted it, and it is there. Nil is nothing.
	Demand func(r *workload.Reservation) (provisioner.Demand, error)
	// Hook stops or fails the store's durable steps, in tests.
	Hook atomicfile.Hook
}

// Validate says what is wrong with the config.
func (c Config) Validate() error {
	if c.Root == "" && c.Disk == nil {
		return errors.New("cannot open store: no folder is given")
	}
	return nil
}

// wallClock is the machine's clock, taken at its word. It knows no uptime.
type wallClock struct{}

func (wallClock) Now() (time.Time, bool) { return time.Now(), true }

func (wallClock) Read() clock.Reading {
	return clock.Reading{Now: time.Now(), Level: clock.Remove}
}
