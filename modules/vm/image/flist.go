package image

import (
	"context"
	"crypto/sha256"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"

	"github.com/opencontainers/go-digest"
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/fetch"
	"github.com/croft-edge/croft/pkg/flist"
	"github.com/croft-edge/croft/pkg/flist/store"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/vmimage"
)

// flistName is the name that a flist has on the shelf for a moment: it is removed before anything is written to it, and goes
// with its last descriptor.
const flistName = tempPrefix + "flist"

// longestTag is the longest ETag that is remembered, in bytes.
const longestTag = 256

// flists is the origin of the URL of a flist, which is a version by itself: its digest is that of the database.
type flists struct {
	ref     flistReference
	servers fetch.Config
	client  *http.Client
	reader  FlistReader
	shelf   *shelf
	clock   clock.Clock
	// tag is the ETag of the flist that was seen last, and last its digest.
	tag  string
	last digest.Digest
}

func newFlists(c Config, s *shelf) (*flists, error) {
	client, err := c.Registries.Client()
	if err != nil {
		return nil, err
	}
	return &flists{ref: c.Source.flist, servers: c.Registries, client: client, reader: c.Flists, shelf: s, clock: c.Clock}, nil
}

// look implements origin. The whole flist is fetched, unless the server says that it is the one that is here.
func (f *flists) look(ctx context.Context) (offer, error) {
	defer f.client.CloseIdleConnections()
	cannot := func(err error) error { return node.Errorf(node.KindOf(err), "cannot fetch %s: %w", f.ref.url, err) }
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.ref.url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "croft")
	known := f.tag != "" && f.shelf.has(f.last)
	if known {
		req.Header.Set("If-None-Match", f.tag)
	}
	res, err := f.client.Do(req)
	if err != nil {
		return nil, unresolved{cannot(fetch.Cause(err))}
	}
	defer res.Body.Close()
	switch {
	case known && res.StatusCode == http.StatusNotModified:
		return &flistOffer{from: f, sum: f.last}, nil
	case res.StatusCode != http.StatusOK:
		return nil, unresolved{cannot(node.Errorf(fetch.StatusKind(res.StatusCode), "the server answers %d %s", res.StatusCode, http.StatusText(res.StatusCode)))}
	}
	out, err := f.receive(res)
	if err != nil {
		return nil, cannot(err)
	}
	f.tag, f.last = res.Header.Get("ETag"), out.sum
	if len(f.tag) > longestTag {
		f.tag = ""
	}
	return out, nil
}

// receive writes a flist to a file without a name.
func (f *flists) receive(res *http.Response) (_ *flistOffer, err error) {
	if res.ContentLength > flist.Bytes.Each {
		flist.Bytes.Reached()
		return nil, flist.Refused("it has %d bytes, at most %d are allowed", res.ContentLength, flist.Bytes.Each)
	}
	if err := f.shelf.room(max(res.ContentLength, 0)); err != nil {
		return nil, err
	}
	path := f.shelf.join(flistName)
	w, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, onDisk(err, path)
	}
	defer func() {
		if err != nil {
			w.Close()
		}
	}()
	if err := f.shelf.step(atomicfile.Remove, path, func() error { return os.Remove(path) }); err != nil {
		return nil, onDisk(err, path)
	}
	sum := sha256.New()
	body := &paced{res.Body, pace{clock: f.clock, since: f.clock.Boot()}}
	n, err := io.Copy(io.MultiWriter(onShelf{w}, sum), io.LimitReader(body, flist.Bytes.Each+1))
	var disk diskError
	switch {
	case errors.As(err, &disk):
		return nil, disk.error
	case err != nil:
		return nil, fetch.Cause(err)
	case n > flist.Bytes.Each:
		flist.Bytes.Reached()
		return nil, flist.Refused("it has more than %d bytes", flist.Bytes.Each)
	}
	return &flistOffer{from: f, sum: digest.NewDigest(digest.SHA256, sum), file: w}, nil
}

// onShelf is a file whose errors are the disk's.
type onShelf struct{ *os.File }

// diskError is an error of the disk, with its kind.
type diskError struct{ error }

// Write implements io.Writer.
func (o onShelf) Write(p []byte) (int, error) {
	n, err := o.File.Write(p)
	if err != nil {
		return n, diskError{onDisk(err, o.Name())}
	}
	return n, nil
}

// paced is a body that must come fast enough.
type paced struct {
	io.Reader
	pace pace
}

// Read implements io.Reader.
func (p *paced) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	if err == nil {
		err = p.pace.check(int64(n))
	}
	return n, err
}

// flistOffer is a flist that was fetched, or is known to be the one that is here.
type flistOffer struct {
	from *flists
	sum  digest.Digest
	// file has the flist; nil when it wasn't fetched.
	file *os.File
	// stores are those of its blocks, once its contents are known.
	stores *store.Stores
}

func (o *flistOffer) digest() digest.Digest { return o.sum }

func (o *flistOffer) close() {
	if o.file != nil {
		o.file.Close()
	}
	if o.stores != nil {
		o.stores.Close()
	}
}

// contents implements offer.
func (o *flistOffer) contents(ctx context.Context) ([]byte, []file, error) {
	if o.file == nil { // the version was there when it was looked for
		return nil, nil, node.Errorf(node.Transient, "cannot fetch %s: the version that was here has gone", o.from.ref.url)
	}
	list, err := o.from.reader.Read(ctx, o.file)
	if err != nil {
		return nil, nil, err
	}
	if o.stores, err = store.Open(o.from.servers, list.Routes); err != nil {
		return nil, nil, err
	}
	own, err := o.find(list, vmimage.Manifest)
	if err != nil {
		return nil, nil, err
	}
	if own.Size > vmimage.MaxManifest {
		return nil, nil, flist.Refused("its %s has %d bytes, at most %d are allowed", vmimage.Manifest, own.Size, vmimage.MaxManifest)
	}
	within, cancel := context.WithTimeout(ctx, documentTime)
	defer cancel()
	raw, err := io.ReadAll(&blockReader{ctx: within, entry: own, stores: o.stores})
	if err != nil {
		return nil, nil, err
	}
	d, err := described(raw)
	if err != nil {
		return nil, nil, err
	}
	var files []file
	for _, name := range slices.Sorted(maps.Keys(d.Sums)) {
		e, err := o.find(list, name)
		if err != nil {
			return nil, nil, err
		}
		files = append(files, file{name: name, size: e.Size, sum: digest.NewDigestFromEncoded(digest.SHA256, d.Sums[name]), from: blockFile{e, o.stores}})
	}
	return raw, files, nil
}

// find returns a regular file at the root of a flist, all blocks of which have a route.
func (o *flistOffer) find(list *flist.Flist, name string) (*flist.Entry, error) {
	e := list.Root.Find(name)
	switch {
	case e == nil:
		return nil, flist.Refused("it has no %s at its root", name)
	case !e.Mode.IsRegular():
		return nil, flist.Refused("its %s is no regular file", name)
	}
	for _, b := range e.Blocks {
		if !o.stores.Has(b.ID) {
			return nil, flist.Refused("none of its routes has block %s of %s", b.ID, name)
		}
	}
	return e, nil
}

// blockFile is a file of a flist.
type blockFile struct {
	entry  *flist.Entry
	stores *store.Stores
}

// usable implements content: whole blocks that are right, up to the first one that isn't.
func (b blockFile) usable(_ context.Context, part io.Reader, _ int64) (at int64, err error) {
	buf := make([]byte, flist.BlockSize)
	for i, block := range b.entry.Blocks {
		plain := buf[:b.entry.Plain(i)]
		_, err := io.ReadFull(part, plain)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return at, nil
		case err != nil:
			return 0, err
		case !block.Is(plain):
			return at, nil
		}
		at += int64(len(plain))
	}
	return at, nil
}

// open implements content.
func (b blockFile) open(ctx context.Context, at int64) (io.ReadCloser, error) {
	return io.NopCloser(&blockReader{ctx: ctx, entry: b.entry, stores: b.stores, next: int(at / flist.BlockSize)}), nil
}

// wrap implements content: errors of blocks have kinds.
func (b blockFile) wrap(err error) error { return err }

// paced implements content: each store must send each block fast enough, and another one is asked else.
func (b blockFile) paced() bool { return false }

// proven implements content: each block has a sum of its own.
func (b blockFile) proven() bool { return true }

// blockReader reads a file of a flist from a block on.
type blockReader struct {
	ctx    context.Context //nolint:containedctx // of one reading
	entry  *flist.Entry
	stores *store.Stores
	next   int
	rest   []byte
}

// Read implements io.Reader.
func (r *blockReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.next == len(r.entry.Blocks) {
			return 0, io.EOF
		}
		var err error
		if r.rest, err = r.stores.Block(r.ctx, r.entry.Blocks[r.next], r.entry.Plain(r.next)); err != nil {
			return 0, err
		}
		r.next++
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}
