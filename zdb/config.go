package zdb

import (
	"slices"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/zdb/folders"
)

// Modes of namespaces.
const (
	// ModeUser is key and value: the client says the key.
	ModeUser = folders.ModeUser
	// ModeSequential is numbered values: the server gives the key.
	ModeSequential = folders.ModeSequential
)

// Which 0-db is spoken.
const (
	// CompatV1 is the server of March 2020.
	CompatV1 = folders.CompatV1
	// CompatV2 is 0-db 2.0.7.
	CompatV2 = folders.CompatV2
)

// What a Config has where it says nothing.
const (
	// DefaultMaxNamespaces is how many namespaces there are at most.
	DefaultMaxNamespaces = 65536
	// DefaultDataSize is where 0-db goes on to the next data file, in bytes.
	DefaultDataSize = 256 << 20
)

// Arguments is how many a request may have, for a Compat: what its 0-db takes.
func Arguments(compat string) int {
	if compat == CompatV1 {
		return 8
	}
	return 1024
}

const (
	leastDataSize = 4 << 10
	mostDataSize  = 2 << 30
	mostPassword  = 128
)

// Config is what a server is made of. Data is all that it needs.
type Config struct {
	// Data is the folder of the namespaces, which is made when it isn't there.
	Data string
	// Index is the folder of their indexes, "" for Data. As it is written here,
	// clients with admin's rights are told of it.
	Index string
	// Mode is what new namespaces are: ModeUser or ModeSequential. "" is user, and
	// with CompatV2 an empty namespace can be made the other by NSSET. Namespaces
	// that exist stay as they are.
	Mode string
	// Compat is CompatV1 or CompatV2; "" is v2.
	Compat string
	// Admin is the password of AUTH; "" for none, and then everybody is admin,
	// unless AdminSocket is set. At most 128 bytes.
	Admin string
	// Protect makes the namespace default read-only for whoever doesn't SELECT it
	// with Admin, which it needs.
	Protect bool
	// AdminSocket says that there is a listener for admins: connections of other
	// listeners have no admin's rights, but by AUTH, and can't write to default.
	AdminSocket bool
	// Sync makes each round of commands durable before it is answered.
	Sync bool
	// DataSize is where files are rotated as 0-db would, in bytes, 0 for 256 MiB.
	// Clients see it in cursors and positions only.
	DataSize uint64
	// MaxSize is the limit of the namespace default, in bytes of values, 0 for none.
	MaxSize uint64
	// Hook is a program that is told what happens, "" for none.
	Hook string
	// Memory is how many bytes the indexes in memory may take together, 0 for no
	// limit. New keys are refused beyond it.
	Memory uint64
	// MaxNamespaces is how many there are at most, 0 for 65536.
	MaxNamespaces int
	// Debug makes KSCAN and STOP work, as in debug builds of 0-db.
	Debug bool
	// Stop is called for STOP; nil when nothing is to be done.
	Stop func()
	// Version is what INFO says of the server.
	Version string
	Log     zerolog.Logger
}

// Validate names the field that is wrong, its value, and what is allowed.
func (c Config) Validate() error {
	switch {
	case c.Data == "":
		return errors.New("cannot use zdb config: Data is empty, must be a folder")
	case !slices.Contains([]string{"", ModeUser, ModeSequential}, c.Mode):
		return errors.Errorf("cannot use zdb config: Mode is %q, must be %q, %q or empty", c.Mode, ModeUser, ModeSequential)
	case !slices.Contains([]string{"", CompatV1, CompatV2}, c.Compat):
		return errors.Errorf("cannot use zdb config: Compat is %q, must be %q or %q", c.Compat, CompatV1, CompatV2)
	case len(c.Admin) > mostPassword:
		return errors.Errorf("cannot use zdb config: Admin has %d bytes, must have at most %d", len(c.Admin), mostPassword)
	case c.Protect && c.Admin == "":
		return errors.New("cannot use zdb config: Protect is set and Admin is empty, must be a password")
	case c.DataSize != 0 && (c.DataSize < leastDataSize || c.DataSize > mostDataSize):
		return errors.Errorf("cannot use zdb config: DataSize is %d, must be 0 or from %d to %d bytes", c.DataSize, leastDataSize, uint64(mostDataSize))
	case c.MaxNamespaces < 0 || c.MaxNamespaces > DefaultMaxNamespaces:
		return errors.Errorf("cannot use zdb config: MaxNamespaces is %d, must be from 1 to %d, or 0", c.MaxNamespaces, DefaultMaxNamespaces)
	}
	return nil
}

// filled is c with its defaults.
func (c Config) filled() Config {
	if c.Index == "" {
		c.Index = c.Data
	}
	if c.Compat == "" {
		c.Compat = CompatV2
	}
	if c.DataSize == 0 {
		c.DataSize = DefaultDataSize
	}
	if c.MaxNamespaces == 0 {
		c.MaxNamespaces = DefaultMaxNamespaces
	}
	return c
}
