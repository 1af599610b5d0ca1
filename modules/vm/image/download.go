package image

import (
	"context"
	"crypto/sha256"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/vmimage"
)

const (
	// readAt is how much of a file is read at once, roomEach after how much the space is looked at again, speedEach the time
	// in which Speed must be reached.
	readAt    = 256 << 10
	roomEach  = 16 << 20
	speedEach = time.Minute
)

// errWrong is the error of a file whose bytes have another digest.
var errWrong = errors.New("the digest is wrong")

// download fetches the files of one version.
type download struct {
	shelf *shelf
	clock clock.Clock
	// folder is that of the version that is being fetched.
	folder string
	// progress is told of bytes that have come, or that turn out to be wrong (less than 0).
	progress func(bytes int64)
}

// have is how much of the files is here already, so that the room for the rest can be checked.
func (d *download) have(files []file) (bytes int64) {
	for _, f := range files {
		for _, name := range []string{f.name, partPrefix + f.name} {
			if info, err := os.Lstat(filepath.Join(d.folder, name)); err == nil {
				bytes += min(info.Size(), f.size)
			}
		}
	}
	return bytes
}

// fetch fetches a file. One that has its name is whole: it was checked and durable before.
func (d *download) fetch(ctx context.Context, f file) error {
	path, part := filepath.Join(d.folder, f.name), filepath.Join(d.folder, partPrefix+f.name)
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && info.Size() == f.size {
		d.progress(f.size)
		return nil
	}
	resumed, err := d.once(ctx, f, part)
	if errors.Is(err, errWrong) && resumed && !f.from.proven() {
		// The wrong bytes may be those that were here before.
		_, err = d.once(ctx, f, part)
	}
	switch {
	case errors.Is(err, errWrong):
		return unusable("the bytes of %s aren't those of its digest", f.name)
	case err != nil:
		return err
	}
	return onDisk(d.shelf.settle(part, path, fileMode), path)
}

// once reads the rest of a file, and compares all of it with its digest. resumed is whether a part was here before.
// A file that is wrong is removed.
func (d *download) once(ctx context.Context, f file, part string) (resumed bool, err error) {
	w, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return false, onDisk(err, part)
	}
	defer w.Close()
	sum := sha256.New()
	from, err := d.resume(ctx, w, sum, f)
	if err != nil {
		return false, err
	}
	d.progress(from)
	if from < f.size {
		if err := d.read(ctx, f, io.MultiWriter(w, sum), from); err != nil {
			return from > 0, err
		}
	}
	if digest.NewDigest(digest.SHA256, sum) == f.sum {
		return from > 0, onDisk(w.Close(), part)
	}
	d.progress(-f.size)
	if err := d.shelf.step(atomicfile.Remove, part, func() error { return os.Remove(part) }); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, onDisk(err, part)
	}
	return from > 0, errWrong
}

// resume sums up what can be used of the bytes that are here of a file, drops the others, and returns how many those are.
// w is at its end then.
func (d *download) resume(ctx context.Context, w *os.File, sum hash.Hash, f file) (int64, error) {
	info, err := w.Stat()
	if err != nil {
		return 0, err
	}
	usable := int64(0)
	if have := info.Size(); have > 0 && have <= f.size {
		if usable, err = f.from.usable(ctx, vmimage.Within(ctx, w), have); err != nil {
			return 0, errors.Wrapf(err, "cannot read %s", w.Name())
		}
	}
	if usable < info.Size() {
		if err := w.Truncate(usable); err != nil {
			return 0, onDisk(err, w.Name())
		}
	}
	if _, err := w.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	n, err := io.Copy(sum, vmimage.Within(ctx, w))
	return n, errors.Wrapf(err, "cannot read %s", w.Name())
}

// read writes the bytes of a file from an offset on, and not one more than it has.
func (d *download) read(ctx context.Context, f file, w io.Writer, from int64) error {
	body, err := f.from.open(ctx, from)
	if err != nil {
		return err
	}
	defer body.Close()
	pace := pace{clock: d.clock, since: d.clock.Boot()}
	buf := make([]byte, readAt)
	for left, looked, first := f.size-from, int64(0), true; ; first = false {
		n, err := body.Read(buf)
		if first && from > 0 {
			// A server that can't begin in the middle has sent all that is here once more.
			pace.since = d.clock.Boot()
		}
		if int64(n) > left {
			return unusable("%s has more than the %d bytes that its manifest says", f.name, f.size)
		}
		if err := d.write(w, f, buf[:n]); err != nil {
			return err
		}
		left, looked = left-int64(n), looked+int64(n)
		if looked >= roomEach {
			looked = 0
			if err := d.shelf.room(0); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF && left > 0:
			return node.Errorf(node.Transient, "cannot fetch %s: it ended %d bytes too early", f.name, left)
		case err == io.EOF:
			return nil
		case err != nil:
			return f.from.wrap(err)
		}
		if !f.from.paced() {
			continue
		}
		if err := pace.check(int64(n)); err != nil {
			return err
		}
	}
}

func (d *download) write(w io.Writer, f file, p []byte) error {
	path := filepath.Join(d.folder, partPrefix+f.name)
	err := d.shelf.step(atomicfile.Write, path, func() error {
		_, err := w.Write(p)
		return err
	})
	d.progress(int64(len(p)))
	return onDisk(err, path)
}

// pace sees a server that sends too slowly.
type pace struct {
	clock clock.Clock
	since time.Duration
	bytes int64
}

func (p *pace) check(n int64) error {
	p.bytes += n
	now := p.clock.Boot()
	if now-p.since < speedEach {
		return nil
	}
	if p.bytes < Speed.Each*int64(now-p.since)/int64(speedEach) {
		Speed.Reached()
		return node.Errorf(node.Transient, "cannot fetch the image: its server sends less than %s", Speed)
	}
	p.since, p.bytes = now, 0
	return nil
}
