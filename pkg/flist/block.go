package flist

import (
	"crypto/aes"
	"crypto/cipher"

	"github.com/klauspost/compress/snappy"
	"github.com/pkg/errors"
	"golang.org/x/crypto/blake2b"
)

const (
	// BlockSize is the size of a file's blocks, except of the last one, in bytes.
	BlockSize = 512 << 10
	// nonce and tag are those of AES-GCM, in bytes.
	nonceSize = 12
	tagSize   = 16
)

// Block is a part of a file's content.
type Block struct {
	// ID is the name of the block in a store, and the hash of the bytes there.
	ID Hash
	// Key is the hash of the content, which it decrypts.
	Key Hash
}

// MostStored is the most bytes that a store has of a block with so many bytes of content: any snappy encoder's maximum
// (snappy.cc, MaxCompressedLength), of which the library's own needs less, and the seal.
func MostStored(plain int) int { return 32 + plain + plain/6 + tagSize }

// Is reports whether that is the block's content.
func (b Block) Is(plain []byte) bool { return blake2b.Sum256(plain) == b.Key }

// Decode returns the block's content, of a known size of 1 to BlockSize bytes, of what a store has. It is returned whole
// and checked, or not at all.
func (b Block) Decode(stored []byte, plain int) ([]byte, error) {
	if plain < 1 || plain > BlockSize {
		return nil, errors.Errorf("a block of %d bytes can't be, it must have 1 to %d", plain, BlockSize)
	}
	if blake2b.Sum256(stored) != b.ID {
		return nil, errors.New("the bytes aren't those of its ID")
	}
	c, err := aes.NewCipher(b.Key[:])
	if err != nil {
		return nil, err
	}
	seal, err := cipher.NewGCM(c)
	if err != nil {
		return nil, err
	}
	packed, err := seal.Open(nil, b.Key[:nonceSize], stored, nil)
	if err != nil {
		return nil, errors.New("its key doesn't decrypt it")
	}
	// The length that it announces is what the decoder allocates.
	if n, err := snappy.DecodedLen(packed); err != nil || n != plain {
		return nil, errors.Errorf("it unpacks to %d bytes, must be %d", n, plain)
	}
	out, err := snappy.Decode(nil, packed)
	if err != nil {
		return nil, errors.New("it can't be unpacked")
	}
	if len(out) != plain || !b.Is(out) {
		return nil, errors.New("its content isn't that of its key")
	}
	return out, nil
}
