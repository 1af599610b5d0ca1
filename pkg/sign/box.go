package sign

import (
	"crypto/rand"
	"crypto/sha512"
	"io"

	"filippo.io/edwards25519"
	"github.com/pkg/errors"
	"golang.org/x/crypto/nacl/box"
)

// BoxOverhead is the size of a sealed box beyond its content, in bytes.
const BoxOverhead = box.AnonymousOverhead

// Seal seals plaintext to the key of id, as libsodium's crypto_box_seal does: only
// the key's owner can open it, and nobody can tell who made it.
func Seal(id string, plaintext []byte) ([]byte, error) {
	return sealWith(rand.Reader, id, plaintext)
}

func sealWith(random io.Reader, id string, plaintext []byte) ([]byte, error) {
	key, err := VerifyingKey(id)
	if err != nil {
		return nil, err
	}
	point, err := new(edwards25519.Point).SetBytes(key)
	if err != nil {
		return nil, errors.Wrapf(err, "cannot seal to %s", id)
	}
	out, err := box.SealAnonymous(nil, plaintext, (*[32]byte)(point.BytesMontgomery()), random)
	return out, errors.Wrapf(err, "cannot seal to %s", id)
}

// Open opens a box that was sealed to this key.
func (k KeyPair) Open(sealed []byte) ([]byte, error) {
	if len(sealed) < BoxOverhead {
		return nil, errors.Errorf("cannot open box: it has %d bytes, must have at least %d", len(sealed), BoxOverhead)
	}
	public, private, err := k.curve25519()
	if err != nil {
		return nil, err
	}
	out, ok := box.OpenAnonymous(nil, sealed, public, private)
	if !ok {
		return nil, errors.New("cannot open box: it wasn't made for this key, or is damaged")
	}
	return out, nil
}

// curve25519 is the key pair for boxes, derived from the ed25519 pair as libsodium
// does: u = (1+y)/(1-y), and the clamped first half of SHA-512 of the seed.
func (k KeyPair) curve25519() (public, private *[32]byte, err error) {
	point, err := new(edwards25519.Point).SetBytes(k.Public())
	if err != nil {
		return nil, nil, errors.Wrap(err, "cannot make a curve25519 key")
	}
	digest := sha512.Sum512(k.Seed())
	private = (*[32]byte)(digest[:32])
	private[0] &= 248
	private[31] &= 127
	private[31] |= 64
	return (*[32]byte)(point.BytesMontgomery()), private, nil
}
