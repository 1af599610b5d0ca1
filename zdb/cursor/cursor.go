// Package cursor is the wire form of cursors and positions, which name an entry by its
// place in the files that 0-db would have. It is pure.
//
// A cursor is a packed record: key length, index file, value length, index offset, crc.
// A position is index file and offset. Numbers are little-endian; the file has 2 bytes
// in version 1 and 4 in version 2.
package cursor

import (
	"encoding/binary"

	"github.com/croft-edge/croft/zdb/store"
)

// Dialect is the form of one version of 0-db.
type Dialect struct {
	// file is how many bytes a file's number has.
	file int
}

// V1 is the form of the server of March 2020.
func V1() Dialect { return Dialect{file: 2} }

// V2 is the form of 0-db 2.0.7.
func V2() Dialect { return Dialect{file: 4} }

func (d Dialect) cursorSize() int   { return 1 + d.file + 4 + 4 + 4 }
func (d Dialect) positionSize() int { return d.file + 4 }

func (d Dialect) putFile(dst []byte, file uint32) []byte {
	if d.file == 2 {
		return binary.LittleEndian.AppendUint16(dst, uint16(file))
	}
	return binary.LittleEndian.AppendUint32(dst, file)
}

func (d Dialect) takeFile(b []byte) (uint32, []byte) {
	if d.file == 2 {
		return uint32(binary.LittleEndian.Uint16(b)), b[2:]
	}
	return binary.LittleEndian.Uint32(b), b[4:]
}

// Append appends the cursor of an entry.
func (d Dialect) Append(dst []byte, e *store.Entry) []byte {
	dst = append(dst, byte(len(e.Key)))
	dst = d.putFile(dst, e.Position.File)
	dst = binary.LittleEndian.AppendUint32(dst, e.Length)
	dst = binary.LittleEndian.AppendUint32(dst, e.Position.Offset)
	return binary.LittleEndian.AppendUint32(dst, e.CRC)
}

// Cursor is a cursor that a client sent back.
type Cursor struct {
	key         int
	length, crc uint32
	// At is the entry's place.
	At store.Position
}

// Read reads a cursor. It returns false for anything else.
func (d Dialect) Read(b []byte) (Cursor, bool) {
	if len(b) != d.cursorSize() {
		return Cursor{}, false
	}
	var c Cursor
	c.key = int(b[0])
	c.At.File, b = d.takeFile(b[1:])
	c.length = binary.LittleEndian.Uint32(b)
	c.At.Offset = binary.LittleEndian.Uint32(b[4:])
	c.crc = binary.LittleEndian.Uint32(b[8:])
	return c, true
}

// Matches reports whether the cursor is e's. The key of a deleted entry may be gone.
func (c Cursor) Matches(e *store.Entry) bool {
	return (c.key == len(e.Key) || e.Deleted && e.Key == nil) && c.length == e.Length && c.crc == e.CRC
}

// AppendPosition appends a position.
func (d Dialect) AppendPosition(dst []byte, p store.Position) []byte {
	return binary.LittleEndian.AppendUint32(d.putFile(dst, p.File), p.Offset)
}

// ReadPosition reads a position. It returns false for anything else.
func (d Dialect) ReadPosition(b []byte) (store.Position, bool) {
	if len(b) != d.positionSize() {
		return store.Position{}, false
	}
	var p store.Position
	p.File, b = d.takeFile(b)
	p.Offset = binary.LittleEndian.Uint32(b)
	return p, true
}
