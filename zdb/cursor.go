package zdb

import (
	"encoding/binary"

	"github.com/croft-edge/croft/zdb/store"
)

// A cursor is a packed record: key length, index file, value length, index
// offset, crc. A position is index file and offset. Numbers are little-endian;
// the file has 2 bytes in version 1 and 4 in version 2.

// dialect is what the two versions see differently.
type dialect struct {
	layout store.Layout
	// file is how many bytes a file's number has.
	file int
}

func dialectOf(compat string) dialect {
	if compat == CompatV1 {
		return dialect{layout: store.V1(), file: 2}
	}
	return dialect{layout: store.V2(), file: 4}
}

func (d dialect) cursorSize() int   { return 1 + d.file + 4 + 4 + 4 }
func (d dialect) positionSize() int { return d.file + 4 }

func (d dialect) putFile(dst []byte, file uint32) []byte {
	if d.file == 2 {
		return binary.LittleEndian.AppendUint16(dst, uint16(file))
	}
	return binary.LittleEndian.AppendUint32(dst, file)
}

func (d dialect) takeFile(b []byte) (uint32, []byte) {
	if d.file == 2 {
		return uint32(binary.LittleEndian.Uint16(b)), b[2:]
	}
	return binary.LittleEndian.Uint32(b), b[4:]
}

// appendCursor appends the cursor of an entry.
func (d dialect) appendCursor(dst []byte, e *store.Entry) []byte {
	dst = append(dst, byte(len(e.Key)))
	dst = d.putFile(dst, e.Position.File)
	dst = binary.LittleEndian.AppendUint32(dst, e.Length)
	dst = binary.LittleEndian.AppendUint32(dst, e.Position.Offset)
	return binary.LittleEndian.AppendUint32(dst, e.CRC)
}

// cursor is what a client sent back.
type cursor struct {
	key         int
	length, crc uint32
	at          store.Position
}

func (d dialect) readCursor(b []byte) (cursor, bool) {
	if len(b) != d.cursorSize() {
		return cursor{}, false
	}
	var c cursor
	c.key = int(b[0])
	c.at.File, b = d.takeFile(b[1:])
	c.length = binary.LittleEndian.Uint32(b)
	c.at.Offset = binary.LittleEndian.Uint32(b[4:])
	c.crc = binary.LittleEndian.Uint32(b[8:])
	return c, true
}

// of says whether the cursor is e's. Of one that is deleted the key may be gone.
func (c cursor) of(e *store.Entry) bool {
	return (c.key == len(e.Key) || e.Deleted && e.Key == nil) && c.length == e.Length && c.crc == e.CRC
}

func (d dialect) appendPosition(dst []byte, p store.Position) []byte {
	return binary.LittleEndian.AppendUint32(d.putFile(dst, p.File), p.Offset)
}

func (d dialect) readPosition(b []byte) (store.Position, bool) {
	if len(b) != d.positionSize() {
		return store.Position{}, false
	}
	var p store.Position
	p.File, b = d.takeFile(b)
	p.Offset = binary.LittleEndian.Uint32(b)
	return p, true
}
