package format

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
)

// PayloadCRC is 0-db's checksum: Castagnoli's polynomial, begun with zero and
// not inverted at the end.
func PayloadCRC(p []byte) uint32 {
	return ^crc32.Update(^uint32(0), crc32.MakeTable(crc32.Castagnoli), p)
}

// Checksum is the CRC-32C of p.
func Checksum(p []byte) uint32 { return crc32.Checksum(p, crc32.MakeTable(crc32.Castagnoli)) }

// Identity is a store's own random number. It seeds the keys' hashes, so that nobody can
// choose keys that collide, and the checksums, so that bytes written to another store or
// another place aren't taken for valid.
type Identity [2]uint64

// The constants are wyhash's.
const (
	salt0 = 0xa0761d6478bd642f
	salt1 = 0xe7037ed1a0b428db
)

func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// Mask is combined with the checksum of bytes at a place.
func (id Identity) Mask(place uint64) uint32 {
	return uint32(mix(id[1]^salt0, place^salt1))
}

// Hash is a key's hash, as wyhash does it.
func (id Identity) Hash(key []byte) uint64 {
	seed, n := id[0]^salt0, len(key)
	var a, b uint64
	switch {
	case n > 16:
		p := key
		for ; len(p) > 16; p = p[16:] {
			seed = mix(binary.LittleEndian.Uint64(p)^salt1, binary.LittleEndian.Uint64(p[8:])^seed)
		}
		a, b = binary.LittleEndian.Uint64(key[n-16:]), binary.LittleEndian.Uint64(key[n-8:])
	case n >= 8:
		a, b = binary.LittleEndian.Uint64(key), binary.LittleEndian.Uint64(key[n-8:])
	case n >= 4:
		a, b = uint64(binary.LittleEndian.Uint32(key)), uint64(binary.LittleEndian.Uint32(key[n-4:]))
	case n > 0:
		a = uint64(key[0])<<16 | uint64(key[n/2])<<8 | uint64(key[n-1])
	}
	return mix(salt1^uint64(n), mix(a^salt1, b^seed))
}
