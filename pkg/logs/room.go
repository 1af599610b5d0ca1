package logs

import (
	"os"
	"path/filepath"

	"github.com/rs/zerolog"
)

// leastRoom is how much a stream may always keep of an earlier carrier's output, in bytes.
const leastRoom = 16 << 10

// makeRoom frees the finished part of spools of earlier carriers, and drops the oldest
// of the rest, where that is more than a stream may have, or all together more than
// half of memory: files on a tmpfs count as the carrier's own.
func makeRoom(fifos string, memory int64, log zerolog.Logger) {
	found, _ := filepath.Glob(filepath.Join(fifos, "*", "*.spool"))
	if len(found) == 0 || trimAll(found, limitSpool.Each, log) <= memory/2 {
		return
	}
	trimAll(found, max(leastRoom, memory/4/int64(len(found))), log)
}

// trimAll trims spools to most bytes each, and says how much they still have.
func trimAll(found []string, most int64, log zerolog.Logger) (left int64) {
	for _, path := range found {
		dropped, rest, err := trimmed(path, most)
		if err != nil {
			log.Warn().Err(err).Str("spool", path).Msg("cannot trim a spool of an earlier carrier")
		}
		if dropped > 0 {
			limitSpool.Reached()
			log.Warn().Str("spool", path).Int64("bytes", dropped).Msg("the spools of an earlier carrier are too large: the oldest output is dropped")
		}
		left += rest
	}
	return left
}

// trimmed trims one spool, and says how many bytes of it were dropped and how
// many are left.
func trimmed(path string, most int64) (dropped, left int64, err error) {
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return 0, 0, err
	}
	s, err := openSpool(path)
	if err != nil {
		return 0, 0, err
	}
	defer s.close()
	dropped, err = s.trim(most)
	return dropped, s.pending(), err
}
