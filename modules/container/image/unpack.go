package image

import (
	"context"
	"strings"
	"sync"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/croft-edge/croft/modules/container/image/document"
	"github.com/croft-edge/croft/modules/container/image/unpack"
	"github.com/croft-edge/croft/pkg/node"
)

// apply unpacks a layer into a snapshot's folder, within the bounds, in a process of
// its own, and checks that it is what the config says.
func (a *attempt) apply(ctx context.Context, layer ocispec.Descriptor, diff digest.Digest, mounts []mount.Mount, b *unpack.Bounds) error {
	upper, parents, err := folders(mounts)
	if err != nil {
		return err
	}
	at, err := a.parts.content.ReaderAt(ctx, layer)
	if err != nil {
		return backend(err, "read a layer")
	}
	defer at.Close()
	if b.Room, err = a.store.left(ctx); err != nil {
		return err
	}
	watched, end := context.WithCancelCause(ctx)
	defer end(nil)
	go a.store.watchRoom(watched, end)
	got, err := unpack.Run(watched, a.store.cfg.Unpack, unpack.Layer{Packed: at, Upper: upper, Below: parents, Bounds: *b, Confine: a.store.cfg.Confine})
	if full := context.Cause(watched); err != nil && watched.Err() != nil && node.KindOf(full) == node.NoSpace {
		return full
	}
	if err != nil {
		return err
	}
	if got.Diff != diff {
		return node.Errorf(node.Refused, "cannot use the image: its layer %s holds %s, its config says %s", layer.Digest, got.Diff, diff)
	}
	b.Bytes, b.Files = got.Bytes, got.Files
	return nil
}

// folders are where a layer goes and what lies below it, topmost first.
func folders(mounts []mount.Mount) (upper string, parents []string, err error) {
	if len(mounts) == 1 && mounts[0].Type == "bind" {
		return mounts[0].Source, nil, nil
	}
	if len(mounts) == 1 && mounts[0].Type == "overlay" {
		for _, o := range mounts[0].Options {
			if v, ok := strings.CutPrefix(o, "upperdir="); ok {
				upper = v
			}
			if v, ok := strings.CutPrefix(o, "lowerdir="); ok {
				parents = strings.Split(v, ":")
			}
		}
	}
	if upper == "" {
		err = node.Errorf(node.Internal, "cannot use containerd's snapshots: %+v isn't an overlay", mounts)
	}
	return upper, parents, err
}

// lowerOf are the folders that a view shows.
func lowerOf(mounts []mount.Mount) ([]string, error) {
	if len(mounts) == 1 && mounts[0].Type == "bind" {
		return []string{mounts[0].Source}, nil
	}
	if len(mounts) == 1 && mounts[0].Type == "overlay" {
		for _, o := range mounts[0].Options {
			if v, ok := strings.CutPrefix(o, "lowerdir="); ok {
				return strings.Split(v, ":"), nil
			}
		}
	}
	return nil, node.Errorf(node.Internal, "cannot use containerd's snapshots: %+v isn't an overlay", mounts)
}

// config reads the config of an image that is here, and returns its digest too.
func (p parts) config(ctx context.Context, o pinned) (ocispec.Image, digest.Digest, error) {
	raw, err := p.blobs.read(ctx, p.content, o.target)
	if err != nil {
		return ocispec.Image{}, "", backend(err, "read an image's manifest")
	}
	d, err := document.Decode(raw, o.target.MediaType)
	if err == nil && d.Config == nil {
		err = invalid("its manifest has no config")
	}
	if err != nil {
		return ocispec.Image{}, "", err
	}
	if raw, err = p.blobs.read(ctx, p.content, *d.Config); err != nil {
		return ocispec.Image{}, "", backend(err, "read an image's config")
	}
	c, err := document.DecodeConfig(raw)
	return c, d.Config.Digest, err
}

// blobs remembers small blobs that were read before: what has a digest never
// changes, so only whether it is still here has to be asked. It is safe for
// concurrent use.
type blobs struct {
	mu  sync.Mutex
	has map[digest.Digest][]byte
	sum int
}

// mostBlobs is how many bytes of blobs are remembered.
const mostBlobs = 256 << 10

// read returns a blob of the namespace of ctx. NotFound when it has none.
func (b *blobs) read(ctx context.Context, from content.Store, desc ocispec.Descriptor) ([]byte, error) {
	b.mu.Lock()
	raw, known := b.has[desc.Digest]
	b.mu.Unlock()
	if known {
		// Another user's may be the one that was read.
		_, err := from.Info(ctx, desc.Digest)
		return raw, err
	}
	raw, err := content.ReadBlob(ctx, from, desc)
	if err == nil {
		b.keep(desc.Digest, raw)
	}
	return raw, err
}

// keep remembers a blob. When there is no room all others are forgotten.
func (b *blobs) keep(d digest.Digest, raw []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known := b.has[d]; known || len(raw) > mostBlobs {
		return
	}
	if b.has == nil || b.sum+len(raw) > mostBlobs {
		b.has, b.sum = map[digest.Digest][]byte{}, 0
	}
	b.has[d] = raw
	b.sum += len(raw)
}
