package store

import "hash/crc32"

// payloadCRC is 0-db's checksum: Castagnoli's polynomial, begun with zero and
// not inverted at the end.
func payloadCRC(p []byte) uint32 {
	return ^crc32.Update(^uint32(0), crc32.MakeTable(crc32.Castagnoli), p)
}
