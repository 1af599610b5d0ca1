package nodeimage

import (
	"crypto/ed25519"
	"encoding/base64"
	"strings"

	"github.com/pkg/errors"
)

// domain stands before a manifest in what is signed, so that a signature of nothing else is one of an image.
const domain = "croft node image v1\n"

// Sign signs a manifest's bytes.
func Sign(key ed25519.PrivateKey, manifest []byte) []byte {
	return ed25519.Sign(key, append([]byte(domain), manifest...))
}

// Verify checks the signature of a manifest's bytes.
func Verify(key ed25519.PublicKey, manifest, signature []byte) error {
	if len(key) != ed25519.PublicKeySize {
		return errors.Errorf("cannot check an image's signature: the key has %d bytes, must have %d", len(key), ed25519.PublicKeySize)
	}
	if len(signature) != ed25519.SignatureSize {
		return errors.Errorf("cannot use an image: its signature has %d bytes, must have %d", len(signature), ed25519.SignatureSize)
	}
	if !ed25519.Verify(key, append([]byte(domain), manifest...), signature) {
		return errors.New("cannot use an image: its signature isn't of the key that is built in")
	}
	return nil
}

// EncodeKey is the text of a public key: base64, and a line feed.
func EncodeKey(key ed25519.PublicKey) []byte {
	return []byte(base64.StdEncoding.EncodeToString(key) + "\n")
}

// DecodeKey reads what EncodeKey writes.
func DecodeKey(text []byte) (ed25519.PublicKey, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != ed25519.PublicKeySize {
		return nil, errors.Errorf("cannot read the public key of images: it must be %d bytes in base64", ed25519.PublicKeySize)
	}
	return key, nil
}

// EncodePrivateKey is the text of the seed of a private key.
func EncodePrivateKey(key ed25519.PrivateKey) []byte {
	return []byte(base64.StdEncoding.EncodeToString(key.Seed()) + "\n")
}

// DecodePrivateKey reads what EncodePrivateKey writes.
func DecodePrivateKey(text []byte) (ed25519.PrivateKey, error) {
	seed, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, errors.Errorf("cannot read the private key of images: it must be %d bytes in base64", ed25519.SeedSize)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}
