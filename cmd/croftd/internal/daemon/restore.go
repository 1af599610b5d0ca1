package daemon

import (
	"context"
	"os"
	"path/filepath"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/mirrors"
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/cmd/croftd/internal/module/identity"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/provision/persist"
	"github.com/croft-edge/croft/provision/persist/mirror"
	"github.com/croft-edge/croft/provision/store"
)

// RestoreOrder says what `croftd store restore` does.
type RestoreOrder struct {
	// From is the mirror's instance, or its place as the settings write it.
	From string
	// RecoverySeed is the file of the private recovery key, empty to use the node's own key; Machine is the ID of the node whose store it is, which
	// only the recovery key needs.
	RecoverySeed string
	Machine      string
	// Partial restores what is sound although something is missing.
	Partial bool
}

// Restore makes the store of a stopped node from a mirror, and the node's key where the recovery key is used.
func Restore(ctx context.Context, c Config, o RestoreOrder) (mirror.Report, error) {
	key, machine, err := o.key(c.Config)
	if err != nil {
		return mirror.Report{}, err
	}
	from, instance, closed, err := mirrors.Open(o.From, c.Mirrors, machine, c.Secrets())
	if err != nil {
		return mirror.Report{}, err
	}
	defer closed()
	if err := module.MakeFolder(c.StateDir, 0o700); err != nil {
		return mirror.Report{}, err
	}
	r := mirror.RestoreConfig{
		Provider: from, Instance: instance, Machine: machine, Key: key, Folder: storeFolder(c.Config), Partial: o.Partial,
		Rebirth: func(folder string) error { return rebirth(folder, c) },
	}
	if o.RecoverySeed != "" {
		r.Keep = func(own sign.KeyPair) error { return keepKey(c.Config, own) }
	}
	return mirror.Restore(ctx, r)
}

// key is the key that opens the mirror, and whose mirror it is.
func (o RestoreOrder) key(c config.Config) (sign.KeyPair, persist.MachineID, error) {
	own, err := identity.Key(c)
	missing := errors.Is(err, os.ErrNotExist)
	if err != nil && !missing {
		return own, "", node.WithKind(node.Refused, err)
	}
	if o.RecoverySeed == "" {
		if missing {
			return own, "", node.Errorf(node.Refused, "cannot restore a store: this machine has no key of a node: name the recovery key's file and the node's ID")
		}
		if o.Machine != "" && o.Machine != own.ID() {
			return own, "", node.Errorf(node.Refused, "cannot restore the store of node %s: this machine is node %s", o.Machine, own.ID())
		}
		return own, persist.MachineID(own.ID()), nil
	}
	if _, err := sign.VerifyingKey(o.Machine); err != nil {
		return own, "", node.Errorf(node.Invalid, "cannot restore a store by the recovery key: the node's ID is %q, must be the base58 of its 32 bytes", o.Machine)
	}
	is, err := identity.Remembered(c)
	if err != nil {
		return own, "", node.WithKind(node.Refused, err)
	}
	if !missing {
		is = own.ID()
	}
	if is != "" && is != o.Machine {
		return own, "", node.Errorf(node.Refused, "cannot restore the store of node %s: this machine is node %s; move %s away first, if that node may be given up", o.Machine, is, filepath.Dir(identity.SeedFile(c)))
	}
	seed, err := sign.ReadPrivateSeedFile(o.RecoverySeed)
	return seed.KeyPair, persist.MachineID(o.Machine), node.WithKind(node.Invalid, err)
}

// keepKey makes this machine the node with that key, unless it is.
func keepKey(c config.Config, own sign.KeyPair) error {
	if err := module.MakeFolder(filepath.Dir(identity.SeedFile(c)), 0o700); err != nil {
		return err
	}
	if is, err := identity.Key(c); err == nil && is.ID() == own.ID() {
		return nil // it is there, or given, and then it is written nowhere
	}
	err := sign.WriteSeedFile(identity.SeedFile(c), own, sign.NodeSeedMode)
	if errors.Is(err, os.ErrExist) {
		return nil // it is the same one: key has seen to that
	}
	return err
}

// rebirth gives the store in a folder a new birth.
func rebirth(folder string, c Config) error {
	d, deferred := &daemon{Config: c}, &deferredClock{}
	s, err := store.Open(store.Config{Root: folder, Log: c.Log, Clock: deferred, BirthClock: vouchedClock{deferred}})
	if err != nil {
		return err
	}
	trust, err := d.openClock(s, func() {})
	if err == nil {
		deferred.trust.Store(trust)
		err = s.Rebirth()
	}
	if shut := s.Close(); err == nil {
		err = shut
	}
	return err
}
