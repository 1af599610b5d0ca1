package catalog

import (
	"context"
	"time"

	"github.com/opencontainers/image-spec/identity"

	"github.com/croft-edge/croft/modules/container/image/source"
	"github.com/croft-edge/croft/pkg/node"
)

// touchAgain is how old the recorded time of last use may get before it is written
// again: each write costs containerd an fsync.
const touchAgain = time.Minute

// Pin keeps an image for a label, and for the next pull of its reference.
func (c *Catalog) Pin(ctx context.Context, n Namespace, spec node.ImageSpec, r source.Reference, i Image) error {
	c.changes.Lock()
	defer c.changes.Unlock()
	if err := n.whole(ctx, i); err != nil {
		return err
	}
	i.User, i.Reference, i.used, i.Hash = spec.User, r.Text, c.cfg.Clock.Now(), ""
	if !r.Local() {
		known := i
		known.name, known.Label = referenceName(r.Text), ""
		if err := n.remember(ctx, known); err != nil {
			return err
		}
	}
	i.name, i.Label, i.Reference, i.Hash = labelPrefix+spec.Label, spec.Label, spec.Reference, spec.Hash
	return n.write(ctx, i)
}

// remember records where a reference leads, unless that is recorded already and was
// used a moment ago.
func (n Namespace) remember(ctx context.Context, known Image) error {
	have, err := n.get(ctx, known.name)
	if err == nil && have.Digest() == known.Digest() && have.Size == known.Size && have.User == known.User && have.Reference == known.Reference {
		if since := known.used.Sub(have.used); since >= 0 && since < touchAgain {
			return nil
		}
	}
	return n.write(ctx, known)
}

// whole fails when a part of an image isn't here any more: it may have been removed
// just now.
func (n Namespace) whole(ctx context.Context, i Image) error {
	config, _, err := n.Config(ctx, i)
	if err != nil {
		return err
	}
	_, err = n.Snapshots.Stat(ctx, identity.ChainID(config.RootFS.DiffIDs).String())
	return Kinded(err, "find an image's layers")
}

// Claim writes the caller's hash to the image of spec's label, which must have none or
// the same.
func (c *Catalog) Claim(ctx context.Context, n Namespace, spec node.ImageSpec) (Image, error) {
	c.changes.Lock()
	defer c.changes.Unlock()
	i, err := n.OfLabel(ctx, spec.Label)
	if node.KindOf(err) == node.NotExist {
		return i, node.Errorf(node.Transient, "cannot pull an image for %s: it is being released", spec.Label)
	}
	if err == nil {
		claim := node.Claim{Hash: spec.Hash, AdoptUnlabelled: spec.AdoptUnlabelled}
		err = claim.Check("pull an image for "+spec.Label, i.Hash)
	}
	if err != nil {
		return i, err
	}
	i.Hash = spec.Hash
	return i, n.write(ctx, i)
}

// Touch records that an image is used now.
func (c *Catalog) Touch(ctx context.Context, n Namespace, i Image) error {
	if since := c.cfg.Clock.Now().Sub(i.used); since >= 0 && since < touchAgain {
		return nil
	}
	c.changes.Lock()
	defer c.changes.Unlock()
	i.used = c.cfg.Clock.Now()
	return n.write(ctx, i)
}

// touchAll records for all references that lead to an image that it is used now.
func (n Namespace) touchAll(ctx context.Context, digest string, now time.Time) error {
	all, err := n.list(ctx)
	if err != nil {
		return err
	}
	for _, i := range all {
		if i.Label == "" && i.Digest().String() == digest {
			i.used = now
			if err := n.write(ctx, i); err != nil {
				return err
			}
		}
	}
	return nil
}
