// Package identity describes the identity module: the node's key, and its version.
package identity

import (
	"context"
	"os"
	"path/filepath"

	"github.com/pkg/errors"
	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/modules/identity"
	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/stubs"
	"github.com/croft-edge/croft/pkg/resources/host"
	"github.com/croft-edge/croft/pkg/sign"
)

// Descriptor describes the module.
func Descriptor() module.Descriptor {
	return module.Descriptor{
		Name: "identity", Bus: node.IdentityModule, Summary: "the node's key",
		Objects: []zbus.ObjectID{
			bus.Object(node.IdentityObject, node.IdentityVersion),
			bus.Object(node.VersionObject, node.VersionObjectVersion),
			bus.Object(node.VersionObject, node.SeedVersionObjectVersion),
		},
		Open: open,
		Ask: func(ctx context.Context, client zbus.Client, _ *host.ModuleSpec) error {
			_, err := stubs.NewIdentityManagerStub(client).NodeID(ctx)
			return err
		},
	}
}

func open(_ context.Context, h module.Host) (*module.Instance, error) {
	again := func(ctx context.Context, version string) <-chan struct{} {
		return bus.Newcomers(ctx, h.Bus, node.IdentityModule, bus.Object(node.VersionObject, version), "Version")
	}
	m, err := openKey(h.Config, identity.Config{Version: h.Version, Again: again})
	if err != nil {
		return nil, err
	}
	return &module.Instance{Objects: []module.Object{
		module.Serves(node.IdentityObject, node.IdentityVersion, stubs.IdentityManagerMethods(m.Manager())),
		module.Serves(node.VersionObject, node.VersionObjectVersion, stubs.VersionMonitorMethods(m.Monitor())),
		module.Serves(node.VersionObject, node.SeedVersionObjectVersion, stubs.SeedVersionMonitorMethods(m.SeedMonitor())),
	}}, nil
}

// NodeID is the ID of the node with that configuration; it makes the key when there is none. The ID of a node whose key is given to its service alone is
// known without it.
func NodeID(c config.Config) (string, error) {
	m, err := openKey(c, identity.Config{})
	if errors.Is(err, os.ErrNotExist) {
		if id, e := Remembered(c); e == nil && id != "" {
			return id, nil
		}
	}
	if err != nil {
		return "", err
	}
	return m.NodeID(), nil
}

// Key is the node's key, for what is sealed by it: the mirrors of its store. os.ErrNotExist when there is none.
func Key(c config.Config) (sign.KeyPair, error) {
	key, err := given(c)
	if err != nil {
		return sign.KeyPair{}, err
	}
	return identity.Load(keyFolder(c), key)
}

// Remembered is the ID of the node whose key was given, empty when none ever was.
func Remembered(c config.Config) (string, error) { return identity.Remembered(keyFolder(c)) }

// SeedFile is the file of the node's key, where the operator gives none.
func SeedFile(c config.Config) string { return filepath.Join(keyFolder(c), "seed") }

func keyFolder(c config.Config) string { return filepath.Join(c.StateDir, "identity") }

// NewbornFile is created before the node's key and removed once its store exists: without it, a missing
// store was lost.
func NewbornFile(c config.Config) string { return filepath.Join(c.StateDir, "newborn") }

// openKey opens the node's key, or makes it when there is none.
func openKey(c config.Config, as identity.Config) (*identity.Module, error) {
	if err := module.MakeFolder(c.StateDir, 0o700); err != nil {
		return nil, err
	}
	_, err := Key(c)
	if id, e := Remembered(c); errors.Is(err, os.ErrNotExist) && e == nil && id == "" {
		// A given key isn't new: the node may have had a store on another disk.
		if err := atomicfile.WriteFile(NewbornFile(c), nil, 0o600); err != nil {
			return nil, errors.Wrap(err, "cannot note that the node is new")
		}
	}
	as.Dir = keyFolder(c)
	if as.Given, err = given(c); err != nil {
		return nil, err
	}
	return identity.Open(as)
}
