package image

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/pkg/archive"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// apply unpacks a layer into a snapshot's folder, within the limits, and
// checks that it is what the config says.
func (a *attempt) apply(ctx context.Context, layer ocispec.Descriptor, diff digest.Digest, mounts []mount.Mount, u *use) error {
	upper, parents, err := folders(mounts)
	if err != nil {
		return err
	}
	at, err := a.parts.content.ReaderAt(ctx, layer)
	if err != nil {
		return backend(err, "read a layer")
	}
	defer at.Close()
	plain, end, err := decompress(content.NewReader(at))
	if err != nil {
		return invalid("its layer %s can't be read: %w", layer.Digest, err)
	}
	defer end()
	sum := digest.SHA256.Digester()
	stream := io.TeeReader(&counted{ctx: ctx, use: u, from: plain}, sum.Hash())
	options := []archive.ApplyOpt{archive.WithConvertWhiteout(archive.OverlayConvertWhiteout), archive.WithFilter(u.admit)}
	if len(parents) > 0 {
		options = append(options, archive.WithParents(parents))
	}
	if _, err = archive.Apply(ctx, upper, stream, options...); err == nil {
		// What lies behind the tar counts for the digest.
		_, err = io.Copy(io.Discard, stream)
	}
	if err != nil {
		return layerError(ctx, layer, err)
	}
	if got := sum.Digest(); got != diff {
		return node.Errorf(node.Refused, "cannot use the image: its layer %s holds %s, its config says %s", layer.Digest, got, diff)
	}
	return syncFolder(upper)
}

func layerError(ctx context.Context, layer ocispec.Descriptor, err error) error {
	var kinded *node.Error
	switch {
	case errors.As(err, &kinded):
		return kinded
	case ctx.Err() != nil:
		return node.Errorf(node.Transient, "cannot unpack layer %s: %w", layer.Digest, ctx.Err())
	case backendKind(err) != node.Internal && backendKind(err) != node.NotExist:
		return backend(err, "unpack a layer")
	}
	return invalid("its layer %s can't be unpacked: %w", layer.Digest, err)
}

// syncFolder gets a layer to the disk before containerd's records say that it
// is there.
func syncFolder(dir string) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return node.Errorf(node.Internal, "cannot open a layer: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.Syncfs(fd); err != nil {
		return backend(err, "write a layer to the disk")
	}
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

// config reads the config of an image that is here.
func (p parts) config(ctx context.Context, o pinned) (ocispec.Image, error) {
	var d document
	var c ocispec.Image
	for _, step := range []struct {
		desc func() ocispec.Descriptor
		to   any
	}{{func() ocispec.Descriptor { return o.target }, &d}, {func() ocispec.Descriptor { return *d.Config }, &c}} {
		raw, err := content.ReadBlob(ctx, p.content, step.desc())
		if err != nil {
			return c, backend(err, "read an image's config")
		}
		if err := json.Unmarshal(raw, step.to); err != nil {
			return c, invalid("its config can't be read: %w", err)
		}
		if d.Config == nil {
			return c, invalid("its manifest has no config")
		}
	}
	return c, nil
}
