// Package format is the bytes on disk: records and segment headers of the log,
// slots of the index, and checkpoints, with their checksums.
//
// It holds types and pure functions of them; reading and writing files is for
// its users. Every checksum depends on the place of the bytes it covers, and on
// the store's Identity.
package format
