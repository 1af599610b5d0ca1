package store

import (
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/zdb/store/disk"
	"github.com/croft-edge/croft/zdb/store/index"
)

// Layout is the sizes, in bytes, of the parts of 0-db's files. Clients see
// them: positions count in them.
type Layout struct {
	DataHeader  uint32 // the data file's header
	DataEntry   uint32 // an entry of the data file without key and payload
	IndexHeader uint32 // the index file's header
	IndexEntry  uint32 // an entry of the index file without its key
	IDSize      int    // an id in sequential mode, little-endian
}

// V1 is the layout of the 0-db of early 2020.
func V1() Layout {
	return Layout{DataHeader: 26, DataEntry: 18, IndexHeader: 27, IndexEntry: 30, IDSize: 4}
}

// V2 is the layout of 0-db 2.0.
func V2() Layout {
	return Layout{DataHeader: 28, DataEntry: 18, IndexHeader: 29, IndexEntry: 34, IDSize: 8}
}

// DefaultDataSize is where a data file of 0-db ends, in bytes.
const DefaultDataSize = 256 << 20

// Shared holds the open files and the read buffer that the stores of one goroutine share.
type Shared = disk.Pool

// NewShared makes a Shared that keeps at most so many files open.
func NewShared(files int) *Shared { return disk.NewPool(files) }

// Config says where a store is and how it behaves.
type Config struct {
	Dir      string // the log's folder, made when missing
	IndexDir string // the index' folder; empty: Dir

	Sequential bool   // ids instead of keys
	Layout     Layout // V1() or V2()
	DataSize   uint64 // a data file's size, in bytes, after which positions go to the next file; 0: DefaultDataSize

	SegmentSize uint64 // bytes of a segment of the log; 0: chosen by MaxSize
	MaxSize     uint64 // live payload in bytes; 0: no limit. See SetMaxSize
	Sync        bool   // Flush waits until the disk has it

	// Memory is asked before the keys' table grows by that many bytes, and told
	// with a negative number when it shrinks. False: Set answers ErrFull. Nil: no limit.
	Memory func(more int) bool
	// Background runs a function on another goroutine. Nil: go f().
	Background func(f func())
	Shared     *Shared // with the other stores of the goroutine; nil: its own
	Guarded    bool    // the caller sees to it that nobody else opens the folder: no lock, and no open file for it
	Log        zerolog.Logger

	disk  disk.Disk
	now   func() time.Time
	slots uint64 // of a chunk of the index
	fresh func(b []byte)
}

func (c *Config) validate() error {
	switch {
	case c.Dir == "":
		return errors.New("cannot open a store: Dir is empty, must be a folder")
	case c.Layout != V1() && c.Layout != V2():
		return errors.Errorf("cannot open store %s: Layout is %+v, must be V1() or V2()", c.Dir, c.Layout)
	}
	if c.SegmentSize != 0 && (c.SegmentSize < 4<<10 || c.SegmentSize > 1<<30) {
		return errors.Errorf("cannot open store %s: SegmentSize is %d, must be 0 or 4096 to 1073741824", c.Dir, c.SegmentSize)
	}
	if c.DataSize > 1<<31 {
		return errors.Errorf("cannot open store %s: DataSize is %d, must be at most 2147483648", c.Dir, c.DataSize)
	}
	c.fill()
	return nil
}

// fill sets the defaults of empty fields.
func (c *Config) fill() {
	if c.IndexDir == "" {
		c.IndexDir = c.Dir
	}
	if c.DataSize == 0 {
		c.DataSize = DefaultDataSize
	}
	if c.Background == nil {
		c.Background = func(f func()) { go f() }
	}
	if c.Shared == nil {
		c.Shared = disk.NewPool(64)
	}
	if c.disk == nil {
		c.disk = disk.Real{}
	}
	if c.now == nil {
		c.now = time.Now
	}
	if c.fresh == nil {
		c.fresh = random
	}
	if c.slots == 0 {
		c.slots = index.ChunkSlots
	}
}
