package mesh

import (
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"

	"github.com/pkg/errors"
)

// keySize is that of WireGuard's keys in bytes.
const keySize = 32

// NewKey makes a private key, as `wg genkey` does.
func NewKey() (string, error) {
	key := make([]byte, keySize)
	if _, err := rand.Read(key); err != nil {
		return "", errors.Wrap(err, "cannot make a key")
	}
	key[0] &= 248
	key[31] = key[31]&127 | 64
	return base64.StdEncoding.EncodeToString(key), nil
}

// PublicKey is the public key of a private one. The error doesn't repeat it.
func PublicKey(private string) (string, error) {
	raw, err := decodeKey(private)
	if err != nil {
		return "", errors.Errorf("isn't a WireGuard private key, must be %d bytes in standard base64", keySize)
	}
	key, err := ecdh.X25519().NewPrivateKey(raw)
	if err != nil {
		return "", errors.New("isn't a WireGuard private key")
	}
	return base64.StdEncoding.EncodeToString(key.PublicKey().Bytes()), nil
}

// CheckKey checks a public key; the error is without a subject.
func CheckKey(public string) error {
	raw, err := decodeKey(public)
	if err != nil || weak(raw) {
		return errors.Errorf("is %q, must be a WireGuard public key, %d bytes in standard base64", public, keySize)
	}
	return nil
}

// weak reports whether a public key is one of the curve's few points with which
// everybody agrees on the same secret. Nodes refuse these.
func weak(public []byte) bool {
	private, err := ecdh.X25519().NewPrivateKey(bytes.Repeat([]byte{1}, keySize))
	if err != nil {
		return true
	}
	point, err := ecdh.X25519().NewPublicKey(public)
	if err != nil {
		return true
	}
	_, err = private.ECDH(point)
	return err != nil
}

// decodeKey reads a key. Nothing but zeros is nobody's key.
func decodeKey(text string) ([]byte, error) {
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err == nil && (len(raw) != keySize || bytes.Equal(raw, make([]byte, keySize))) {
		err = errors.New("not a key")
	}
	return raw, err
}
