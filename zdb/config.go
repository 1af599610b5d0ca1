package zdb

import (
	"slices"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/zdb/folders"
)

// Modes of namespaces.
const (
	// ModeUser is key and value: the client chooses the key.
	ModeUser = folders.ModeUser
	// ModeSequential is numbered values: the server gives the key.
	ModeSequential = folders.ModeSequential
)

// Versions of 0-db.
const (
	// CompatV1 is the server of March 2020.
	CompatV1 = folders.CompatV1
	// CompatV2 is 0-db 2.0.7.
	CompatV2 = folders.CompatV2
)

// Defaults of a Config.
const (
	// DefaultMaxNamespaces is the maximum number of namespaces.
	DefaultMaxNamespaces = 65536
	// DefaultDataSize is the size at which 0-db begins the next data file, in bytes.
	DefaultDataSize = 256 << 20
)

// Arguments is the maximum number of a request's arguments in a version of 0-db.
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

// Config is the settings of a server. Only Data is required.
type Config struct {
	// Data is the folder of the namespaces, which is made when it isn't there.
	Data string
	// Index is the folder of their indexes, "" for Data. NSINFO shows it to admins as it
	// is written here.
	Index string
	// Mode is the mode of new namespaces: ModeUser or ModeSequential. "" is user, and
	// with CompatV2 NSSET can change the mode of an empty namespace. Present namespaces
	// keep their mode.
	Mode string
	// Compat is CompatV1 or CompatV2; "" is v2.
	Compat string
	// Admin is the password of AUTH; "" for none, and then everybody is admin,
	// unless AdminSocket is set. At most 128 bytes.
	Admin string
	// Protect makes the namespace default read-only for clients that don't SELECT it
	// with Admin's password. It requires Admin.
	Protect bool
	// AdminSocket is true if there is a listener for admins: connections of other
	// listeners are admins by AUTH only, and can't write to default.
	AdminSocket bool
	// Sync makes each round of commands durable before its replies.
	Sync bool
	// DataSize is the size of the data files that 0-db would have, in bytes, 0 for
	// 256 MiB. Clients see it in cursors and positions only.
	DataSize uint64
	// MaxSize is the limit of the namespace default, in bytes of values, 0 for none.
	MaxSize uint64
	// Hook is a program that runs on events, "" for none.
	Hook string
	// Memory limits the indexes in memory, in bytes, 0 for no limit. New keys beyond it
	// are refused.
	Memory uint64
	// MaxNamespaces is the maximum number of namespaces, 0 for 65536.
	MaxNamespaces int
	// Debug makes KSCAN and STOP work, as in debug builds of 0-db.
	Debug bool
	// Stop is called for STOP; it may be nil.
	Stop func()
	// Version is the server's version in INFO.
	Version string
	Log     zerolog.Logger
}

// Validate names the first wrong field, its value, and the allowed values.
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
