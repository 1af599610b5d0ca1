package node

import "math"

// zdbFixed is what a namespace may take of the disk beside its share, in bytes:
// segments that are being written and cleaned.
const zdbFixed = 256 << 20

// ZDBDisk is the most that a namespace with a limit of size bytes takes of the
// disk: its values, a quarter more for keys, index and values that were
// overwritten or deleted, and a fixed part. The zdb server holds to it, and
// volumes for zdb are made as large.
func ZDBDisk(size uint64) uint64 {
	most := size/4 + zdbFixed
	if size > math.MaxUint64-most {
		return math.MaxUint64
	}
	return size + most
}
