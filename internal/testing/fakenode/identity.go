package fakenode

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
)

// Identity is the identity module with a key in memory. It implements
// node.IdentityManager and node.VersionMonitor.
type Identity struct {
	calls *Calls
	key   sign.KeyPair
	// running is the version of the node's software.
	running node.Version
}

var (
	_ node.IdentityManager = (*Identity)(nil)
	_ node.VersionMonitor  = (*Identity)(nil)
)

// NewIdentity has that key.
func NewIdentity(calls *Calls, key sign.KeyPair) *Identity {
	return &Identity{calls: calls, key: key, running: node.Version{Version: "0.0.0", Commit: "fake"}}
}

// NodeID implements node.IdentityManager.
func (i *Identity) NodeID() (string, error) {
	return answer(i.calls, "Identity.NodeID", "", func() (string, error) { return i.key.ID(), nil })
}

// Sign implements node.IdentityManager.
func (i *Identity) Sign(message []byte) ([]byte, error) {
	return answer(i.calls, "Identity.Sign", "", func() ([]byte, error) {
		if len(message) == 0 {
			return nil, node.Errorf(node.Invalid, "cannot sign nothing")
		}
		text := string(message)
		domain := strings.HasPrefix(text, "croft-result-v2\x00") || strings.HasPrefix(text, "croft-node-write-v1\x00")
		seed := utf8.ValidString(text) && !strings.Contains(text, "\x00")
		if !domain && !seed {
			return nil, node.Errorf(node.Refused, "cannot sign the message: it has none of croft's domains")
		}
		return i.key.Sign(message), nil
	})
}

// Decrypt implements node.IdentityManager.
func (i *Identity) Decrypt(box []byte) ([]byte, error) {
	return answer(i.calls, "Identity.Decrypt", "", func() ([]byte, error) {
		plain, err := i.key.Open(box)
		return plain, node.WithKind(node.Invalid, err)
	})
}

// Encrypt implements node.IdentityManager.
func (i *Identity) Encrypt(plaintext []byte) ([]byte, error) {
	return answer(i.calls, "Identity.Encrypt", "", func() ([]byte, error) { return sign.Seal(i.key.ID(), plaintext) })
}

// Version implements node.VersionMonitor.
func (i *Identity) Version(ctx context.Context) <-chan node.Version {
	out := make(chan node.Version, 1)
	out <- i.running
	go func() {
		<-ctx.Done()
		close(out)
	}()
	return out
}

// ID is the node's ID.
func (i *Identity) ID() string { return i.key.ID() }

// Running is the version of the node's software.
func (i *Identity) Running() node.Version { return i.running }
