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

// NodeID is the ID of the node with that configuration; it makes the key when there is none.
func NodeID(c config.Config) (string, error) {
	m, err := openKey(c, identity.Config{})
	if err != nil {
		return "", err
	}
	return m.NodeID(), nil
}

// Key is the node's key, for what is sealed by it: the mirrors of its store. os.ErrNotExist when there is none.
func Key(c config.Config) (sign.KeyPair, error) {
	seed, err := sign.ReadPrivateSeedFile(SeedFile(c))
	return seed.KeyPair, err
}

// SeedFile is the file of the node's key.
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
	_, err := os.Lstat(SeedFile(c))
	if errors.Is(err, os.ErrNotExist) {
		err = atomicfile.WriteFile(NewbornFile(c), nil, 0o600)
	}
	if err != nil {
		return nil, errors.Wrap(err, "cannot look for the node's key")
	}
	as.Dir = keyFolder(c)
	return identity.Open(as)
}
