package store

import (
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/store/durable"
)

// Clock is the store's view of time. *clock.Trust implements it.
type Clock interface {
	// Now is the time, and whether dates may be compared with it.
	Now() (time.Time, bool)
	// Read is the time, how far it can be trusted, and the node's uptime.
	Read() clock.Reading
}

// Config is a store's configuration.
type Config struct {
	// Root is the folder of the store. Required, unless Disk is given.
	Root string
	// Disk keeps the store's bytes in place of a folder; nothing else may use it meanwhile.
	// Nil is the folder Root.
	Disk durable.Provider
	// Log gets messages for the node's owner. The zero Logger discards them.
	Log zerolog.Logger
	// NewNode is whether the node's key was made just now. Its new store then accepts older
	// reservations, because none can name the node. False for a node with a key but no
	// store: it may have lost the store.
	NewNode bool
	// Clock decides which workloads have expired, for Counters and GetExpired, and which
	// names may be forgotten. Nil is the machine's clock, trusted.
	Clock Clock
	// BirthClock dates the store's birth. Its time must not rest on the explorer alone: see
	// SetMark. Nil is Clock.
	BirthClock Clock
	// Demand returns a reservation's demand, for Usage. One that it can't tell counts as zero: another
	// version of croft admitted it, and it is on the node. Nil is zero for all.
	Demand func(r *workload.Reservation) (provisioner.Demand, error)
	// OnBegin, when set, is called before each change, and OnChange after it: no other change is between them. It must not block, nor
	// call the store.
	OnBegin func()
	// OnChange, when set, is called after each change with the names that may have changed, relative to Root, while the change is
	// still the only one. It must not block, nor call the store.
	OnChange func(names ...string)
	// Hook stops or fails the store's durable steps, in tests.
	Hook atomicfile.Hook
}

// Validate checks the config.
func (c Config) Validate() error {
	if c.Root == "" && c.Disk == nil {
		return errors.New("cannot open store: no folder is given")
	}
	return nil
}

// wallClock is the machine's clock, always trusted. It knows no uptime.
type wallClock struct{}

func (wallClock) Now() (time.Time, bool) { return time.Now(), true }

func (wallClock) Read() clock.Reading {
	return clock.Reading{Now: time.Now(), Level: clock.Remove}
}
