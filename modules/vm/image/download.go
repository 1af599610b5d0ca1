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
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/registry"
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

// repository is where an artifact is fetched from.
type repository interface {
	Fetch(ctx context.Context, desc ocispec.Descriptor) (io.ReadCloser, error)
	Wrap(err error) error
}

// download fetches the files of one version.
type download struct {
	from  repository
	shelf *shelf
	clock clock.Clock
	// folder is that of the version that is being fetched.
	folder string
	// progress is told of bytes that have come, or that turn out to be wrong (less than 0).
	progress func(bytes int64)
}

// documentTime is how long a document of some kilobytes may take.
const documentTime = 2 * time.Minute

// small fetches a document.
func (d *download) small(ctx context.Context, desc ocispec.Descriptor, most int64) ([]byte, error) {
	if desc.Size > most {
		Documents.Reached()
		return nil, refused("a document of it has %d bytes, at most %d are allowed", desc.Size, most)
	}
	ctx, cancel := context.WithTimeout(ctx, documentTime)
	defer cancel()
	body, err := d.from.Fetch(ctx, desc)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	raw, err := io.ReadAll(io.LimitReader(body, desc.Size+1))
	switch {
	case ctx.Err() != nil:
		return nil, node.Errorf(node.Transient, "the registry takes more than %s for a document of %d bytes", documentTime, desc.Size)
	case err != nil:
		return nil, d.from.Wrap(err)
	case int64(len(raw)) != desc.Size, desc.Digest.Algorithm().FromBytes(raw) != desc.Digest:
		return nil, refused("the bytes of %s aren't those of its digest", desc.Digest)
	}
	return raw, nil
}

// have is how much of the files is here already, so that the room for the rest can be checked.
func (d *download) have(files []file) (bytes int64) {
	for _, f := range files {
		for _, name := range []string{f.name, partPrefix + f.name} {
			if info, err := os.Lstat(filepath.Join(d.folder, name)); err == nil {
				bytes += min(info.Size(), f.blob.Size)
			}
		}
	}
	return bytes
}

// fetch fetches a file. One that has its name is whole: it was checked and durable before.
func (d *download) fetch(ctx context.Context, f file) error {
	path, part := filepath.Join(d.folder, f.name), filepath.Join(d.folder, partPrefix+f.name)
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && info.Size() == f.blob.Size {
		d.progress(f.blob.Size)
		return nil
	}
	resumed, err := d.once(ctx, f, part)
	if errors.Is(err, errWrong) && resumed {
		// The wrong bytes may be those that were here before.
		_, err = d.once(ctx, f, part)
	}
	switch {
	case errors.Is(err, errWrong):
		return refused("the bytes of %s aren't those of its digest", f.name)
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
	from, err := d.resume(ctx, w, sum, f.blob.Size)
	if err != nil {
		return false, err
	}
	d.progress(from)
	if from < f.blob.Size {
		if err := d.read(ctx, f, io.MultiWriter(w, sum), from); err != nil {
			return from > 0, err
		}
	}
	if digest.NewDigest(digest.SHA256, sum) == f.blob.Digest {
		return from > 0, onDisk(w.Close(), part)
	}
	d.progress(-f.blob.Size)
	if err := d.shelf.step(atomicfile.Remove, part, func() error { return os.Remove(part) }); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, onDisk(err, part)
	}
	return from > 0, errWrong
}

// resume sums up what is here of a file, and returns how much that is. w is at its end then.
func (d *download) resume(ctx context.Context, w *os.File, sum hash.Hash, size int64) (int64, error) {
	info, err := w.Stat()
	if err != nil {
		return 0, err
	}
	if info.Size() > size {
		return 0, onDisk(w.Truncate(0), w.Name())
	}
	n, err := io.Copy(sum, vmimage.Within(ctx, w))
	return n, errors.Wrapf(err, "cannot read %s", w.Name())
}

// read writes the bytes of a file from an offset on, and not one more than it has.
func (d *download) read(ctx context.Context, f file, w io.Writer, from int64) error {
	body, err := d.from.Fetch(ctx, f.blob)
	if err != nil {
		return err
	}
	defer body.Close()
	if from > 0 {
		if err := registry.Skip(body, from); err != nil {
			return d.from.Wrap(err)
		}
	}
	pace := pace{clock: d.clock, since: d.clock.Boot()}
	buf := make([]byte, readAt)
	for left, looked, first := f.blob.Size-from, int64(0), true; ; first = false {
		n, err := body.Read(buf)
		if first && from > 0 {
			// A registry that can't begin in the middle has sent all that is here once more.
			pace.since = d.clock.Boot()
		}
		if int64(n) > left {
			return refused("%s has more than the %d bytes that its manifest says", f.name, f.blob.Size)
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
			return d.from.Wrap(err)
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

// pace sees a registry that sends too slowly.
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
		return node.Errorf(node.Transient, "cannot fetch the image: the registry sends less than %s", Speed)
	}
	p.since, p.bytes = now, 0
	return nil
}
