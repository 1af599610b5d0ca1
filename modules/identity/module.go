package identity

import (
	"context"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
)

// repeatVersion is how often the version stream tells the version again. A
// reader that comes late gets the next event of a stream, not the first.
const repeatVersion = 2 * time.Second

// Config says where the key is and what the node runs.
type Config struct {
	// Dir is the folder of the seed file; made with 0700 when it isn't there.
	Dir string
	// Version is what the version stream tells.
	Version node.Version
}

// Module holds the node's key. Open makes one; it is safe for concurrent use.
type Module struct {
	key     sign.KeyPair
	version node.Version
}

// Open loads the node's key, or makes it when there is none. It never
// overwrites one: a file that can't be used is an error, for a person to mend.
func Open(cfg Config) (*Module, error) {
	if cfg.Dir == "" {
		return nil, node.Errorf(node.Invalid, "cannot open identity: Dir is empty, must be the folder of the seed file")
	}
	key, err := loadOrMake(cfg.Dir)
	if err != nil {
		return nil, errors.Wrap(err, "cannot open identity")
	}
	return &Module{key: key, version: cfg.Version}, nil
}

// NodeID is the base58 of the node's public key.
func (m *Module) NodeID() string { return m.key.ID() }

// Manager is what goes on the bus as identityd.manager.
func (m *Module) Manager() node.IdentityManager { return manager{m} }

// Monitor is what goes on the bus as identityd.monitor.
func (m *Module) Monitor() node.VersionMonitor { return monitor{m} }

// monitor tells the version.
type monitor struct{ m *Module }

// Version tells the version at once and again every two seconds; it can't
// change while the process lives.
func (o monitor) Version(ctx context.Context) <-chan node.Version {
	out := make(chan node.Version)
	go func() {
		defer close(out)
		again := time.NewTicker(repeatVersion)
		defer again.Stop()
		for {
			select {
			case out <- o.m.version:
			case <-ctx.Done():
				return
			}
			select {
			case <-again.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}
