package image

import (
	"context"
	"time"

	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/croft-edge/croft/pkg/node"
)

func chainOf(diffs []digest.Digest) digest.Digest { return identity.ChainID(diffs) }

// layers fetches and unpacks those layers of an image that aren't unpacked yet.
func (a *attempt) layers(ctx context.Context, c chosen) (*use, error) {
	diffs := c.config.RootFS.DiffIDs
	done := 0
	u := &use{attempt: a, mostBytes: a.store.cfg.MaxSize, mostFiles: a.store.cfg.MaxFiles}
	if left := a.store.cfg.UserBudget - a.before; a.counted() && left < u.mostBytes {
		u.mostBytes = left
	}
	for ; done < len(diffs); done++ {
		chain := chainOf(diffs[:done+1]).String()
		usage, err := a.parts.snapshots.Usage(ctx, chain)
		if errdefs.IsNotFound(err) {
			break
		}
		if err != nil {
			return nil, backend(err, "look for an unpacked layer")
		}
		if err := a.also(ctx, "snapshots/"+snapshotter, chain); err != nil {
			return nil, err
		}
		u.bytes, u.files = u.bytes+usage.Size, u.files+usage.Inodes
	}
	wanted := c.document.Layers[done:]
	a.job.progress(func(i *node.Image) {
		i.Done, i.Total = 0, 0
		for _, l := range wanted {
			i.Total += uint64(l.Size)
		}
	})
	for _, l := range wanted {
		if err := a.blob(ctx, l); err != nil {
			return nil, err
		}
	}
	a.job.progress(func(i *node.Image) { i.Done, i.Unpacking = i.Total, true })
	for i, l := range wanted {
		if err := a.unpack(ctx, l, diffs[:done+i+1], u); err != nil {
			return nil, err
		}
	}
	return u, nil
}

// unpack makes one layer a snapshot.
func (a *attempt) unpack(ctx context.Context, layer ocispec.Descriptor, diffs []digest.Digest, u *use) error {
	back, err := a.store.unpacking.take(ctx, a.job.spec.User)
	if err != nil {
		return backend(err, "unpack a layer")
	}
	defer back()
	key, parent := "croft.unpack."+a.job.spec.Label, ""
	if n := len(diffs) - 1; n > 0 {
		parent = chainOf(diffs[:n]).String()
	}
	sn := a.parts.snapshots
	// One that an attempt before has left is made anew.
	if err := sn.Remove(ctx, key); err != nil && !errdefs.IsNotFound(err) {
		return backend(err, "unpack a layer")
	}
	mounts, err := sn.Prepare(ctx, key, parent)
	if err != nil {
		return backend(err, "unpack a layer")
	}
	chain := chainOf(diffs).String()
	if err = a.apply(ctx, layer, diffs[len(diffs)-1], mounts, u); err == nil {
		err = sn.Commit(ctx, chain, key)
		if err == nil {
			return nil
		}
		if errdefs.IsAlreadyExists(err) {
			err = a.also(ctx, "snapshots/"+snapshotter, chain)
		}
	}
	// Also after ctx has ended.
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), longestCall)
	defer cancel()
	if e := sn.Remove(clean, key); e != nil && !errdefs.IsNotFound(e) && err == nil {
		err = e
	}
	return backend(err, "unpack a layer")
}

// Layers is what a container is made of.
type Layers struct {
	// Digest is that of the image's manifest.
	Digest string
	// Lower are the folders of its layers, topmost first. They stay as long as
	// the label isn't released.
	Lower []string
	// Config is the image's.
	Config ocispec.ImageConfig
}

// Layers returns those of a label's image. NotExist when it has none.
func (s *Store) Layers(ctx context.Context, label string) (Layers, error) {
	if err := checkLabel(label); err != nil {
		return Layers{}, err
	}
	in, p, o, err := s.find(ctx, label)
	if err != nil {
		return Layers{}, err
	}
	if o.released {
		return Layers{}, node.Errorf(node.NotExist, "cannot find an image for %s", label)
	}
	config, err := p.config(in, o)
	if err != nil {
		return Layers{}, err
	}
	key := viewPrefix + label
	mounts, err := p.snapshots.View(in, key, chainOf(config.RootFS.DiffIDs).String(), snapshots.WithLabels(map[string]string{
		keyReservation: label, "containerd.io/gc.root": time.Now().UTC().Format(time.RFC3339),
	}))
	if errdefs.IsAlreadyExists(err) {
		mounts, err = p.snapshots.Mounts(in, key)
	}
	if err != nil {
		return Layers{}, backend(err, "find the layers of "+label)
	}
	lower, err := lowerOf(mounts)
	if err != nil {
		return Layers{}, err
	}
	return Layers{Digest: o.digest().String(), Lower: lower, Config: config.Config}, s.touch(in, p, o)
}

// touchAgain is how long what was noted of an image's use is good enough.
const touchAgain = time.Minute

// touch notes that an image is needed now.
func (s *Store) touch(ctx context.Context, p parts, o pinned) error {
	if since := s.cfg.Clock.Now().Sub(o.used); since >= 0 && since < touchAgain {
		return nil
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	o.used = s.cfg.Clock.Now()
	return p.write(ctx, o)
}
