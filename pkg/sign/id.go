package sign

import (
	"bytes"
	"crypto/ed25519"

	"filippo.io/edwards25519"
	"github.com/mr-tron/base58"
	"github.com/pkg/errors"
)

// maxIDText is the longest base58 text of 32 bytes.
const maxIDText = 44

// ID is the base58 text of a public key.
func ID(key ed25519.PublicKey) string { return base58.Encode(key) }

// ParseID returns the 32 bytes of id. It checks the form alone: VerifyingKey decides
// whether they are a trustworthy key.
func ParseID(id string) (ed25519.PublicKey, error) {
	if len(id) > maxIDText {
		return nil, errors.Errorf("cannot read ID: %d characters, at most %d are allowed", len(id), maxIDText)
	}
	key, err := base58.Decode(id)
	if err != nil {
		return nil, errors.Errorf("cannot read ID %q: it isn't base58", id)
	}
	if len(key) != ed25519.PublicKeySize || base58.Encode(key) != id {
		return nil, errors.Errorf("cannot read ID %q: it holds %d bytes, must hold %d", id, len(key), ed25519.PublicKeySize)
	}
	return ed25519.PublicKey(key), nil
}

// VerifyingKey returns the key of id, if a signature by it proves something.
//
// Refused are bytes that aren't a point of the curve; a second encoding of
// one, which would be a second ID for the same key; and the eight points of
// small order. Nobody owns a private key of these (the ID of 32 ones is among
// them): anybody can make a signature that holds by such a key for a good part
// of all messages, by the identity point even for every message.
func VerifyingKey(id string) (ed25519.PublicKey, error) {
	key, err := ParseID(id)
	if err != nil {
		return nil, err
	}
	point, err := new(edwards25519.Point).SetBytes(key)
	if err != nil || !bytes.Equal(point.Bytes(), key) {
		return nil, errors.Errorf("cannot use ID %s: it isn't an ed25519 public key", id)
	}
	if new(edwards25519.Point).MultByCofactor(point).Equal(edwards25519.NewIdentityPoint()) == 1 {
		return nil, errors.Errorf("cannot use ID %s: it is a weak key, by which anybody can sign", id)
	}
	return key, nil
}

// Verify checks an ed25519 signature by the key of id.
func Verify(id string, message, signature []byte) error {
	key, err := VerifyingKey(id)
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
