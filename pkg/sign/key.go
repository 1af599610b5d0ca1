package sign

import (
	"crypto/ed25519"
	"crypto/rand"

	"github.com/mr-tron/base58"
	"github.com/pkg/errors"
)

// SeedSize is the size of a private seed in bytes (RFC 8032).
const SeedSize = ed25519.SeedSize

// maxIDText is the longest base58 text of 32 bytes.
const maxIDText = 44

// KeyPair is an ed25519 key pair with its ID.
type KeyPair struct {
	private ed25519.PrivateKey
}

// Generate makes a key pair from the system's randomness.
func Generate() (KeyPair, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return KeyPair{}, errors.Wrap(err, "cannot generate a key")
	}
	return KeyPair{private: private}, nil
}

// FromSeed makes the key pair of a 32-byte seed.
func FromSeed(seed []byte) (KeyPair, error) {
	if len(seed) != SeedSize {
		return KeyPair{}, errors.Errorf("cannot make a key: seed has %d bytes, must have %d", len(seed), SeedSize)
	}
	return KeyPair{private: ed25519.NewKeyFromSeed(seed)}, nil
}

// ID is the base58 of the public key.
func (k KeyPair) ID() string { return ID(k.Public()) }

// Public is the public key.
func (k KeyPair) Public() ed25519.PublicKey { return k.private.Public().(ed25519.PublicKey) }

// Private is the private key.
func (k KeyPair) Private() ed25519.PrivateKey { return k.private }

// Seed is the 32-byte seed.
func (k KeyPair) Seed() []byte { return k.private.Seed() }

// Sign signs message.
func (k KeyPair) Sign(message []byte) []byte { return ed25519.Sign(k.private, message) }

// ID is the base58 text of a public key.
func ID(key ed25519.PublicKey) string { return base58.Encode(key) }

// ParseID returns the key that id is. It must decode to exactly 32 bytes.
func ParseID(id string) (ed25519.PublicKey, error) {
	if len(id) > maxIDText {
		return nil, errors.Errorf("cannot read ID: %d characters, at most %d are allowed", len(id), maxIDText)
	}
	key, err := base58.Decode(id)
	if err != nil {
		return nil, errors.Errorf("cannot read ID %q: it isn't base58", id)
	}
	if len(key) != ed25519.PublicKeySize {
		return nil, errors.Errorf("cannot read ID %q: it holds %d bytes, must hold %d", id, len(key), ed25519.PublicKeySize)
	}
	return ed25519.PublicKey(key), nil
}

// Verify checks an ed25519 signature by the key that id is.
func Verify(id string, message, signature []byte) error {
	key, err := ParseID(id)
	if err != nil {
		return err
	}
	if len(signature) != ed25519.SignatureSize {
		return errors.Errorf("cannot verify signature: it has %d bytes, must have %d", len(signature), ed25519.SignatureSize)
	}
	if !ed25519.Verify(key, message, signature) {
		return errors.Errorf("cannot verify signature: it isn't one of %s over this document", id)
	}
	return nil
}
