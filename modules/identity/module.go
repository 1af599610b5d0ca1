package identity

import (
	"context"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
)

// Config says where the key is and what the node runs.
type Config struct {
	// Dir is the folder of the seed file; made with 0700 when it isn't there.
	Dir string
	// Given is the key that the operator gives, which is written nowhere; nil: the one in Dir. It is refused when this machine is another node.
	Given *sign.KeyPair
	// Version is the value of the version stream.
	Version node.Version
	// Again's channel yields when the version stream of this object version must repeat
	// its value for new readers, because the bus keeps no events. The channel is never
	// closed. A nil channel, or a nil Again, means never.
	Again func(ctx context.Context, version string) <-chan struct{}
}

// Module holds the node's key. Open makes one; it is safe for concurrent use.
type Module struct {
	key     sign.KeyPair
	version node.Version
	again   func(ctx context.Context, version string) <-chan struct{}
}

// Open loads the node's key, or makes it when there is none and none was given before. It never
// overwrites one: an unusable file is an error that a person must mend.
func Open(cfg Config) (*Module, error) {
	if cfg.Dir == "" {
		return nil, node.Errorf(node.Invalid, "cannot open identity: Dir is empty, must be the folder of the seed file")
	}
	key, err := loadOrMake(cfg.Dir, cfg.Given)
	if err != nil {
		return nil, errors.Wrap(err, "cannot open identity")
	}
	again := cfg.Again
	if again == nil {
		again = func(context.Context, string) <-chan struct{} { return nil }
	}
	return &Module{key: key, version: cfg.Version, again: again}, nil
}

// NodeID is the base58 of the node's public key.
func (m *Module) NodeID() string { return m.key.ID() }

// Manager returns the bus object identityd.manager.
func (m *Module) Manager() node.IdentityManager { return manager{m} }

// Monitor returns the bus object identityd.monitor.
func (m *Module) Monitor() node.VersionMonitor { return monitor{m} }

// SeedMonitor returns the bus object identityd.monitor, version 0.0.1.
func (m *Module) SeedMonitor() node.SeedVersionMonitor { return seedMonitor{m} }
