package node

import "context"

// The identity module's address on the bus.
const (
	IdentityModule  = "identityd"
	IdentityObject  = "manager"
	IdentityVersion = "0.1.0"

	VersionObject        = "monitor"
	VersionObjectVersion = "0.1.0"
)

// IdentityManager holds the node's key and never lets it out. Bus:
// identityd.manager@0.1.0.
type IdentityManager interface {
	// NodeID is the base58 of the node's ed25519 public key.
	NodeID() (string, error)
	// Sign returns the 64-byte ed25519 signature of message by the node's key.
	// The message must start with one of croft's signature domains, or be of
	// the seed's result form; the module doesn't look inside.
	Sign(message []byte) ([]byte, error)
	// Decrypt opens a libsodium sealed box made for the node's key (the
	// curve25519 key that follows from its ed25519 key). Invalid for other boxes.
	Decrypt(box []byte) ([]byte, error)
	// Encrypt seals plaintext for the node itself, so that only it can open it.
	Encrypt(plaintext []byte) ([]byte, error)
}

// Version is the version of the node's software.
type Version struct {
	Version string
	Commit  string
}

// VersionMonitor streams the node's version: once at the start of the stream,
// then on change. Bus: identityd.monitor@0.1.0.
type VersionMonitor interface {
	Version(ctx context.Context) <-chan Version
}
