package image

import (
	"context"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/croft-edge/croft/modules/container/image/catalog"
	"github.com/croft-edge/croft/modules/container/image/document"
	"github.com/croft-edge/croft/modules/container/image/source"
	"github.com/croft-edge/croft/modules/container/image/unpack"
	"github.com/croft-edge/croft/pkg/node"
)

// attempt is one attempt to get a job's image.
type attempt struct {
	puller *puller
	job    *job
	in     catalog.Namespace
	// fetched gives back the turn for fetching.
	fetched func()
}

// chosen is an image for this machine, before its layers are here.
type chosen struct {
	manifest ocispec.Descriptor
	document document.Document
	config   ocispec.Image
	total    int64
}

func (a *attempt) run(ctx context.Context) error {
	ref := a.job.ref
	known, cached, err := a.in.Known(ctx, ref)
	if err != nil {
		return err
	}
	if cached && ref.Digest != "" {
		return a.keep(ctx, known)
	}
	from, err := a.puller.sources.Open(ref, a.job.spec.Auth)
	if err != nil {
		return err
	}
	defer from.Close()
	root, err := a.resolve(ctx, from, cached)
	if err != nil && cached && node.KindOf(err) == node.Transient && ctx.Err() == nil {
		a.puller.log.Warn().Str("id", a.job.spec.Label).Str("step", "resolve").Err(err).
			Str("digest", known.Digest().String()).Msg("the registry doesn't answer: using the digest that the tag had before")
		return a.keep(ctx, known)
	}
	if err != nil {
		return err
	}
	return a.fetch(ctx, from, root)
}

// resolve asks where the reference leads now; not for long when it is known
// where it led before.
func (a *attempt) resolve(ctx context.Context, from source.Source, cached bool) (ocispec.Descriptor, error) {
	if cached {
		short, cancel := context.WithTimeout(ctx, a.puller.answer)
		defer cancel()
		ctx = short
	}
	return from.Resolve(ctx)
}

// fetch fetches all of the image and unpacks it, under a lease that holds the
// fetched data until the image is pinned.
func (a *attempt) fetch(ctx context.Context, from source.Source, root ocispec.Descriptor) error {
	if known, ok, err := a.present(ctx, root); err != nil {
		return err
	} else if ok {
		return a.keep(ctx, known)
	}
	if err := a.puller.waste.check(a.job.spec.User, a.job.ref); err != nil {
		return err
	}
	ctx, err := a.in.Hold(ctx, a.job.spec.Label)
	if err != nil {
		return err
	}
	f := &fetcher{in: a.in, from: from, ref: a.job.ref, label: a.job.spec.Label, progress: a.job.progress, room: a.puller.gate.disk.room}
	c, err := f.choose(ctx, root)
	if err != nil {
		return err
	}
	a.job.progress(func(i *node.Image) { i.Digest = c.manifest.Digest.String() })
	if known, ok, err := a.in.ByDigest(ctx, c.manifest.Digest); err != nil {
		return err
	} else if ok {
		return a.keep(ctx, known)
	}
	bounds, err := a.puller.gate.admit(ctx, a.in, a.job, c.total)
	if err != nil {
		return err
	}
	if err := a.layers(ctx, f, c, &bounds); err != nil {
		return err
	}
	a.puller.waste.keep(a.job) // before anybody can use it
	if err := a.in.Link(ctx, c.manifest.Digest, c.document.Config.Digest, c.config.RootFS.DiffIDs); err != nil {
		return err
	}
	return a.keep(ctx, catalog.Image{Target: c.manifest, Size: bounds.Bytes + c.manifest.Size + c.document.Config.Size})
}

// present is the image that a reference leads to when the user has it already:
// then nothing is fetched, and containerd needn't write a lease.
func (a *attempt) present(ctx context.Context, root ocispec.Descriptor) (catalog.Image, bool, error) {
	if root.Data != nil {
		// A layout's own index. Its faults show when it is read again.
		d, err := document.Decode(root.Data, root.MediaType)
		if err != nil {
			return catalog.Image{}, false, nil //nolint:nilerr // see above
		}
		fit, err := choose(d.Manifests)
		if err != nil || len(fit) != 1 {
			return catalog.Image{}, false, nil //nolint:nilerr // see above
		}
		root = fit[0]
	}
	known, ok, err := a.in.ByDigest(ctx, root.Digest)
	return known, ok && known.Target.Size == root.Size, err
}

// layers fetches and unpacks the layers of an image that aren't unpacked yet, and
// counts all of them in the bounds.
func (a *attempt) layers(ctx context.Context, f *fetcher, c chosen, b *unpack.Bounds) error {
	diffs := c.config.RootFS.DiffIDs
	done, err := a.unpacked(ctx, diffs, b)
	if err != nil {
		return err
	}
	wanted := c.document.Layers[done:]
	a.job.progress(func(i *node.Image) {
		i.Done, i.Total = 0, 0
		for _, l := range wanted {
			i.Total += uint64(l.Size)
		}
	})
	for _, l := range wanted {
		if err := f.blob(ctx, l); err != nil {
			return err
		}
	}
	a.job.progress(func(i *node.Image) { i.Done, i.Unpacking = i.Total, true })
	a.fetched()
	for i, l := range wanted {
		if err := a.puller.unpack.layer(ctx, a.in, a.job, layer{l, diffs[:done+i+1], b}); err != nil {
			return err
		}
	}
	return nil
}

// unpacked holds the lowest layers that are unpacked already, counts them in the
// bounds, and returns how many there are.
func (a *attempt) unpacked(ctx context.Context, diffs []digest.Digest, b *unpack.Bounds) (done int, err error) {
	for ; done < len(diffs); done++ {
		chain := chainOf(diffs[:done+1]).String()
		usage, held, err := a.in.HoldLayers(ctx, a.job.spec.Label, chain)
		if err != nil || !held {
			return done, err
		}
		b.Bytes, b.Files = b.Bytes+usage.Size, b.Files+usage.Inodes
	}
	return done, nil
}

// keep pins an image, and releases data that was only needed to fetch it.
func (a *attempt) keep(ctx context.Context, i catalog.Image) error {
	if err := a.puller.catalog.Pin(ctx, a.in, a.job.spec, a.job.ref, i); err != nil {
		return err
	}
	a.job.progress(func(shown *node.Image) { shown.Digest = i.Digest().String() })
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), longestCall)
	defer cancel()
	if err := a.in.LetGo(within, a.job.spec.Label); err != nil {
		a.puller.log.Warn().Str("id", a.job.spec.Label).Str("step", "clean").Err(err).Msg("cannot release the blobs of a finished pull: they stay for now")
	}
	return nil
}
