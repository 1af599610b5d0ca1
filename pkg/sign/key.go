package sign

import (
	"crypto/ed25519"
	"crypto/rand"

	"github.com/pkg/errors"
)

// SeedSize is the size of a private seed in bytes (RFC 8032).
const SeedSize = ed25519.SeedSize

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
