package catalog

import (
	"context"
	"strings"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/croft-edge/croft/modules/container/image/document"
	"github.com/croft-edge/croft/pkg/node"
)

// The labels that containerd's garbage collector follows: a config holds its unpacked
// layers and the view of them, a manifest its config.
const (
	refLayers = "containerd.io/gc.ref.snapshot." + Snapshotter
	refView   = refLayers + "/croft.view"
	refConfig = "containerd.io/gc.ref.content.config"
)

// Link has a manifest hold its config, and the config its unpacked layers and the
// view of them, which is made later. The packed layers aren't held.
func (n Namespace) Link(ctx context.Context, manifest, config digest.Digest, diffIDs []digest.Digest) error {
	chain := identity.ChainID(diffIDs).String()
	if err := n.refer(ctx, config, map[string]string{refLayers: chain, refView: viewPrefix + chain}); err != nil {
		return Kinded(err, "keep an image")
	}
	return Kinded(n.refer(ctx, manifest, map[string]string{refConfig: config.String()}), "keep an image")
}

// refer labels a blob, unless it has the labels already: each write costs containerd
// an fsync.
func (n Namespace) refer(ctx context.Context, d digest.Digest, labels map[string]string) error {
	have, err := n.Content.Info(ctx, d)
	if err != nil {
		return err
	}
	var missing []string
	for key, value := range labels {
		if have.Labels[key] != value {
			missing = append(missing, "labels."+key)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	_, err = n.Content.Update(ctx, content.Info{Digest: d, Labels: labels}, missing...)
	return err
}

// Config reads the config of an image that is here, and returns its digest too.
func (n Namespace) Config(ctx context.Context, i Image) (ocispec.Image, digest.Digest, error) {
	raw, err := n.blobs.read(ctx, n.Content, i.Target)
	if err != nil {
		return ocispec.Image{}, "", Kinded(err, "read an image's manifest")
	}
	d, err := document.Decode(raw, i.Target.MediaType)
	if err == nil && d.Config == nil {
		err = node.Errorf(node.Invalid, "cannot use the image: its manifest has no config")
	}
	if err != nil {
		return ocispec.Image{}, "", err
	}
	if raw, err = n.blobs.read(ctx, n.Content, *d.Config); err != nil {
		return ocispec.Image{}, "", Kinded(err, "read an image's config")
	}
	c, err := document.DecodeConfig(raw)
	return c, d.Config.Digest, err
}

// Lower returns the folders of an image's unpacked layers, topmost first. config is the
// digest of its config.
func (n Namespace) Lower(ctx context.Context, config digest.Digest, diffIDs []digest.Digest) ([]string, error) {
	mounts, err := n.view(ctx, config, identity.ChainID(diffIDs))
	if err != nil {
		return nil, err
	}
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

// view returns the mounts of a user's unpacked layers. containerd has them only for
// snapshots that can be mounted, so a read-only one is made of the layers: once, for
// all containers on them, because it costs two fsyncs. The config holds it, so it goes
// with the image.
func (n Namespace) view(ctx context.Context, config, chain digest.Digest) ([]mount.Mount, error) {
	key := viewPrefix + chain.String()
	mounts, err := n.Snapshots.Mounts(ctx, key)
	if !errdefs.IsNotFound(err) {
		return mounts, err
	}
	// The reference is written first: a view that nothing holds may be collected at
	// once, or stay for ever.
	if err := n.refer(ctx, config, map[string]string{refView: key}); err != nil {
		return nil, err
	}
	mounts, err = n.Snapshots.View(ctx, key, chain.String())
	if errdefs.IsAlreadyExists(err) {
		return n.Snapshots.Mounts(ctx, key)
	}
	return mounts, err
}
