package discard

// extent is a part of a file whose content is on the disk (struct btrfs_file_extent_item). All numbers are in bytes.
type extent struct {
	// at is where the part begins in the file, length its length.
	at, length uint64
	// offset is where the part begins in its extent on the disk, whole the length of all of that.
	offset, whole uint64
}

// span is a part of a file, in bytes.
type span struct{ from, to uint64 }

// whole appends to out the parts of the file that are in items and whose extents on the disk lie in the request whole: those whose
// punching frees their space. Neighbours become one. Items are in order.
func whole(items []extent, request span, out []span) []span {
	for _, e := range items {
		if e.offset > e.at || e.length == 0 {
			continue
		}
		begin := e.at - e.offset
		if begin < request.from || begin >= request.to || e.whole > request.to-begin || e.length > request.to-e.at {
			continue
		}
		if last := len(out) - 1; last >= 0 && out[last].to == e.at {
			out[last].to += e.length
			continue
		}
		out = append(out, span{e.at, e.at + e.length})
	}
	return out
}
