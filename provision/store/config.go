package store

import (
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/atomicfile"
)

// Clock is what the store needs of time: the wall clock, and whether it can be
// trusted. *clock.Trust is one.
type Clock interface {
	Now() (time.Time, bool)
}

// Config is what a store is opened with.
type Config struct {
	// Root is the folder of the store. Required.
	Root string
	// Log gets what the node's owner should know. The zero Logger says nothing.
	Log zerolog.Logger
	// NewNode says that the node has no past: its key was made just now. Its
	// new store then accepts older reservations, for none can name it. A node
	// that has a key but no store may have lost it: false.
	NewNode bool
	// Clock decides what has expired, for Counters and GetExpired. Nil is the
	// machine's clock, trusted.
	Clock Clock
	// BirthClock dates the store's birth. It must not be what the explorer alone
	// says: see SetMark. Nil is Clock.
	BirthClock Clock
	// Hook stops or fails the store's durable steps, in tests.
	Hook atomicfile.Hook
}

// Validate says what is wrong with the config.
func (c Config) Validate() error {
	if c.Root == "" {
		return errors.New("cannot open store: no folder is given")
	}
	return nil
}

// wallClock is the machine's clock, taken at its word.
type wallClock struct{}

func (wallClock) Now() (time.Time, bool) { return time.Now(), true }
