package plane

import (
	"context"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state/impl/inmem"
	"github.com/cosi-project/runtime/pkg/state/impl/store"
	"github.com/cosi-project/runtime/pkg/state/impl/store/bolt"
	"github.com/cosi-project/runtime/pkg/state/impl/store/compression"
	"github.com/cosi-project/runtime/pkg/state/impl/store/encryption"
	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/resources"
	"github.com/croft-edge/croft/pkg/supervise"
)

// compressFrom is the size in bytes from which a resource is compressed.
const compressFrom = 512

// lockWait bounds the wait for another process that has the history open: there is none beside a node.
const lockWait = 5 * time.Second

// history is the file of the namespace History: a bbolt database whose values are compressed and sealed
// (AES-256-GCM); only the types and IDs of resources are readable in it. Without a file the history is in memory alone.
type history struct {
	file   *bolt.BackingStore
	writes *behind
	// lost is why the history of before isn't there; empty when it is.
	lost string
}

// openHistory opens the file, or makes it. One with contents that can't be read is set aside, and a new one begins. Where there can't be a file,
// because the disk is full or another process has it, the history is in memory: it is what has happened, and nothing depends on it.
func openHistory(path string, key []byte, log zerolog.Logger) *history {
	if path == "" {
		return &history{}
	}
	h, err := readHistory(path, key, log)
	if err == nil {
		return h
	}
	lost := err.Error()
	if damaged(err) {
		aside := path + ".damaged"
		log.Error().Err(err).Str("aside", aside).Msg("cannot read the history: it is set aside, and a new one begins")
		if err = os.Rename(path, aside); err == nil || errors.Is(err, os.ErrNotExist) {
			h, err = readHistory(path, key, log)
		}
	}
	if err != nil {
		log.Error().Err(err).Str("path", path).Msg("cannot keep the history in its file: it is kept in memory until the next start")
		return &history{lost: lost}
	}
	h.lost = lost
	return h
}

// damaged reports whether an error is about what a file has, and not about the file's use: then setting it aside is no help.
func damaged(err error) bool {
	var of unix.Errno
	if errors.As(err, &of) {
		return of == unix.EIO
	}
	return !errors.Is(err, bbolterrors.ErrTimeout)
}

// readHistory opens the file, and reads it once as a whole.
func readHistory(path string, key []byte, log zerolog.Logger) (h *history, err error) {
	err = supervise.Guard(log, "history", func() error {
		defer faults()()
		sealed := encryption.NewMarshaler(
			compression.NewMarshaler(store.ProtobufMarshaler{}, compression.ZStd(), compressFrom),
			encryption.NewCipher(encryption.KeyProviderFunc(func() ([]byte, error) { return key, nil })))
		db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockWait})
		if err != nil {
			return errors.WithStack(err)
		}
		file, err := bolt.NewBackingStore(func() (*bbolt.DB, error) { return db, nil }, sealed)
		if err != nil {
			return err
		}
		h = &history{file: file}
		reads := file.WithNamespace(resources.History)
		if err := reads.Load(context.Background(), func(resource.Type, resource.Resource) error { return nil }); err != nil {
			return err
		}
		if h.writes, err = newBehind(db, resources.History, reads, sealed, log); err != nil {
			h = nil // its locks may be held for good
		}
		return err
	})
	if err != nil && h != nil {
		_ = h.Close()
	}
	return h, errors.Wrapf(err, "cannot read the history %s", path)
}

// faults turns the reading of a mapped file behind its end, or of a bad sector, into a panic of this goroutine, until the returned function is called:
// otherwise such a fault ends the process.
func faults() (as func()) {
	before := debug.SetPanicOnFault(true)
	return func() { debug.SetPanicOnFault(before) }
}

// options makes the namespace History be kept in the file.
func (h *history) options() []inmem.StateOption {
	if h.file == nil {
		return nil
	}
	return []inmem.StateOption{inmem.WithBackingStore(h.writes)}
}

// Close writes what isn't written yet, and closes the file.
func (h *history) Close() error {
	if h.file == nil {
		return nil
	}
	if h.writes != nil {
		h.writes.close()
		if h.writes.journal != nil {
			_ = h.writes.journal.file.Close()
		}
		if !h.writes.usable() {
			return nil // its locks are held for good
		}
	}
	return errors.Wrap(h.file.Close(), "cannot close the history")
}

// counter counts atomically. It is a workload.Counter.
type counter struct{ n atomic.Int64 }

// Increment adds one.
func (c *counter) Increment() int64 { return c.n.Add(1) }

// Decrement takes one away.
func (c *counter) Decrement() int64 { return c.n.Add(-1) }

// Current is the present value.
func (c *counter) Current() int64 { return c.n.Load() }
