package format

// Position is a place in 0-db's index: a file and a byte offset in it. The
// zero value is no place.
type Position struct{ File, Offset uint32 }

// Before says whether p comes before q.
func (p Position) Before(q Position) bool {
	return p.File < q.File || p.File == q.File && p.Offset < q.Offset
}

// Place is where a record lies: a segment and an offset in it. Zero is nowhere.
type Place uint64

// PlaceOf is the place at an offset of a segment.
func PlaceOf(segment, offset uint32) Place { return Place(segment)<<32 | Place(offset) }

// Segment is the number of the segment.
func (p Place) Segment() uint32 { return uint32(p >> 32) }

// Offset is the byte offset in the segment.
func (p Place) Offset() uint32 { return uint32(p) }
