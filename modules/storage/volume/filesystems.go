package volume

import "github.com/rs/zerolog"

// Filesystems are the file systems of a pool: their subvolumes are what their users see.
type Filesystems struct{ subvolumes }

// NewFilesystems returns those of a pool. Prepare comes before any change.
func NewFilesystems(p Pool, log zerolog.Logger) *Filesystems {
	return &Filesystems{subvolumes{
		shelf: newShelf(p, "filesystem", "volumes", filesystemLabel), limits: &limits{}, mode: 0o755, log: log,
		room: func(size uint64) uint64 { return size },
		says: messages{
			lost:    "a filesystem was removed by somebody else: it is made anew, empty, and what was in it is lost",
			missing: "filesystems of the index aren't on the pool: never finished, not written before a power cut, or removed by somebody else",
		},
	}}
}
