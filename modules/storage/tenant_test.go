package storage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// block is the least space that btrfs allocates to a file.
const block = 4096

// tenant fills a volume with what takes room in some way of its own.
type tenant struct {
	dir string
	r   *rand.Rand
	// content is what files have, apart from r because it is much.
	content *rand.ChaCha8
	count   int
	// large is written over, sparse has holes; files are all others.
	large, sparse *os.File
	files         []string
}

func newTenant(t *testing.T, dir string, seed uint64) *tenant {
	t.Helper()
	w := &tenant{dir: dir, r: rand.New(rand.NewPCG(seed, 7)), content: rand.NewChaCha8([32]byte{byte(seed)})}
	check(t, w.begin())
	t.Cleanup(w.end)
	return w
}

func (w *tenant) begin() (err error) {
	if w.large, err = os.Create(filepath.Join(w.dir, "large")); err != nil {
		return err
	}
	w.sparse, err = os.Create(filepath.Join(w.dir, "sparse"))
	return err
}

func (w *tenant) end() {
	w.large.Close()
	w.sparse.Close()
}

// ways are those in which a tenant may take room.
func (w *tenant) ways() []func() error {
	return []func() error{w.inline, w.blocks, w.attributes, w.holes, w.overwrites, w.big, w.names}
}

// bytes are n that can't be packed.
func (w *tenant) bytes(n int) []byte {
	b := make([]byte, n)
	_, _ = w.content.Read(b) // it never fails
	return b
}

// file writes one of n bytes.
func (w *tenant) file(n int) error {
	dir := filepath.Join(w.dir, fmt.Sprintf("d%d", w.count/2000))
	if w.count%2000 == 0 {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	path := filepath.Join(dir, fmt.Sprint(w.count))
	w.count++
	w.files = append(w.files, path)
	return os.WriteFile(path, w.bytes(n), 0o600)
}

func (w *tenant) some(times int, do func() error) error {
	for range times {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

// inline writes files that lie in the metadata.
func (w *tenant) inline() error {
	return w.some(100, func() error { return w.file(1 + w.r.IntN(2000)) })
}

// blocks writes files of a block each.
func (w *tenant) blocks() error {
	return w.some(50, func() error { return w.file(block - w.r.IntN(1000)) })
}

func (w *tenant) big() error { return w.file(int(mib)) }

func (w *tenant) attributes() error {
	if err := w.file(0); err != nil {
		return err
	}
	path, n := w.files[len(w.files)-1], 0
	return w.some(50, func() error {
		n++
		return unix.Setxattr(path, fmt.Sprintf("user.%d", n), w.bytes(1+w.r.IntN(3000)), 0)
	})
}

// names makes long names of an empty file.
func (w *tenant) names() error {
	if err := w.file(0); err != nil {
		return err
	}
	path, n := w.files[len(w.files)-1], 0
	return w.some(50, func() error {
		n++
		link := fmt.Sprintf("%s-%d-%s", path, n, strings.Repeat("n", 200))
		w.files = append(w.files, link)
		return os.Link(path, link)
	})
}

// holes writes single blocks far from each other.
func (w *tenant) holes() error {
	return w.some(50, func() error {
		_, err := w.sparse.WriteAt(w.bytes(block), w.r.Int64N(1<<30)/block*block)
		return err
	})
}

// overwrites writes blocks within a large file, each of which becomes an extent.
func (w *tenant) overwrites() error {
	info, err := w.large.Stat()
	if err != nil {
		return err
	}
	if size := info.Size(); size < int64(4*mib) || w.r.IntN(4) == 0 {
		_, err := w.large.WriteAt(w.bytes(int(mib)), size)
		return err
	}
	if w.r.IntN(8) == 0 {
		return w.large.Sync()
	}
	return w.some(50, func() error {
		_, err := w.large.WriteAt(w.bytes(block), w.r.Int64N(info.Size()/block)*block)
		return err
	})
}

// fill takes room in those ways, in turns that nobody foresees, until there is none.
func (w *tenant) fill(ways ...func() error) error {
	for {
		if err := ways[w.r.IntN(len(ways))](); err != nil {
			return err
		}
	}
}

// mix fills the volume in some of its ways.
func (w *tenant) mix() error {
	ways := w.ways()
	w.r.Shuffle(len(ways), func(i, j int) { ways[i], ways[j] = ways[j], ways[i] })
	return w.fill(ways[:1+w.r.IntN(len(ways))]...)
}

// scatter removes all but a few files, which lie all over the place.
func (w *tenant) scatter() error {
	w.end()
	left := w.files[:0]
	for i, path := range append(w.files, w.large.Name(), w.sparse.Name()) {
		if i%20 == 0 && i < len(w.files) {
			left = append(left, path)
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	w.files = left
	return w.begin()
}

// top takes the last bytes.
func (w *tenant) top() error {
	return w.fill(func() error { return w.file(block / 4) })
}
