package image

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/container/image/catalog"
	"github.com/croft-edge/croft/modules/container/image/source"
	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/node"
)

// Store pulls and keeps images. Open makes one; it is safe for concurrent use.
type Store struct {
	sources    *source.Sources
	catalog    *catalog.Catalog
	pulls      *pulls
	waste      *waste
	disk       *disk
	collection Collection
	clock      clock.Clock
	log        zerolog.Logger
}

// Open makes a store on containerd's images. It asks containerd nothing yet.
func Open(c Config) (*Store, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	s := &Store{
		sources: source.New(c.Sources), waste: &waste{clock: c.Clock}, disk: &disk{daemon: c.Daemon, space: c.Space},
		pulls: newPulls(c.Clock, c.Pulling.Backoff), collection: c.Collection, clock: c.Clock, log: c.Log,
	}
	s.catalog = catalog.New(catalog.Config{
		Daemon: c.Daemon, InUse: c.InUse, Lists: c.Lists, Clock: c.Clock, Log: c.Log,
		// A pull that has just begun may have written nothing yet.
		Emptied: func(ctx context.Context, user, label string) {
			if !s.pulls.running(user, label) {
				c.Emptied(ctx, user)
			}
		},
	})
	s.pulls.do = newPuller(c, s).pull
	return s, nil
}

// Close aborts all pulls and waits for them. Fetched data stays.
func (s *Store) Close() error {
	s.pulls.close()
	return nil
}

// Pull starts or continues to fetch an image and returns within a moment: see
// node.Images. After a failure that isn't final it returns that failure until
// the pause is over.
func (s *Store) Pull(ctx context.Context, spec node.ImageSpec) (node.Image, error) {
	if err := checkSpec(spec); err != nil {
		return node.Image{}, err
	}
	ref, err := s.sources.Parse(spec.User, spec.Reference)
	if err != nil {
		return node.Image{}, err
	}
	have, err := s.have(ctx, spec)
	if err != nil || have.Ready {
		return have, err
	}
	near, err := s.near(ctx, spec.User, ref)
	if err != nil {
		return node.Image{}, err
	}
	begun, image, err := s.pulls.begin(spec, ref)
	if begun == nil || !near {
		return image, err
	}
	select {
	case <-begun.done:
	case <-time.After(moment):
		return begun.shown(), nil
	}
	if err := begun.failure(); err != nil {
		return node.Image{}, err
	}
	if have, err = s.have(ctx, spec); err != nil || have.Ready {
		return have, err
	}
	return begun.shown(), nil
}

// moment is how long Pull waits for a job that needs no network.
const moment = 100 * time.Millisecond

// near reports whether a reference's image is on this node.
func (s *Store) near(ctx context.Context, user string, ref source.Reference) (bool, error) {
	if ref.Local() || ref.Digest == "" {
		return ref.Local(), nil
	}
	in, n, err := s.catalog.In(ctx, user)
	if err != nil {
		return false, err
	}
	_, known, err := n.Known(in, ref)
	return known, err
}

// have is the image that a label has already. One without a hash gets the caller's.
func (s *Store) have(ctx context.Context, spec node.ImageSpec) (node.Image, error) {
	in, n, err := s.catalog.In(ctx, spec.User)
	if err != nil {
		return node.Image{}, err
	}
	i, err := n.OfLabel(in, spec.Label)
	switch {
	case node.KindOf(err) == node.NotExist || err == nil && i.Released:
		return node.Image{}, nil
	case err != nil:
		return node.Image{}, err
	}
	if err := claimOf(spec).Check("pull an image for "+spec.Label, i.Hash); err != nil {
		return node.Image{}, err
	}
	if i.Reference != spec.Reference {
		return node.Image{}, node.Errorf(node.Exist, "cannot pull %.200q for %s: it has %.200q", spec.Reference, spec.Label, i.Reference)
	}
	if i.Hash != spec.Hash {
		if i, err = s.catalog.Claim(in, n, spec); err != nil {
			return node.Image{}, err
		}
	}
	return i.Contract(), nil
}

// Inspect returns a label's image. NotExist when there is none.
func (s *Store) Inspect(ctx context.Context, label string) (node.Image, error) {
	if err := checkLabel(label); err != nil {
		return node.Image{}, err
	}
	_, _, i, err := s.catalog.Find(ctx, label)
	if err == nil && !i.Released {
		return i.Contract(), nil
	}
	if err != nil && node.KindOf(err) != node.NotExist {
		return node.Image{}, err
	}
	if j := s.pulls.of(label); j != nil && j.running() {
		return j.shown(), nil
	}
	return node.Image{}, node.Errorf(node.NotExist, "cannot find an image for %s", label)
}

// List returns the images of all labels, sorted.
func (s *Store) List(ctx context.Context) ([]node.Image, error) {
	byLabel := s.pulls.shown()
	err := s.catalog.Show(ctx, func(all []catalog.Image) {
		for _, i := range all {
			if i.Label != "" && !i.Released {
				byLabel[i.Label] = i.Contract()
			}
		}
	})
	out := slices.AppendSeq(make([]node.Image, 0, len(byLabel)), maps.Values(byLabel))
	slices.SortFunc(out, func(a, b node.Image) int { return strings.Compare(a.Label, b.Label) })
	return out, err
}

// Layers are an image's parts that a container needs.
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
	in, n, i, err := s.catalog.Find(ctx, label)
	if err != nil {
		return Layers{}, err
	}
	if i.Released {
		return Layers{}, node.Errorf(node.NotExist, "cannot find an image for %s", label)
	}
	s.waste.forget(label)
	config, digest, err := n.Config(in, i)
	if err != nil {
		return Layers{}, err
	}
	lower, err := n.Lower(in, digest, config.RootFS.DiffIDs)
	if err != nil {
		return Layers{}, catalog.Kinded(err, "find the layers of "+label)
	}
	return Layers{Digest: i.Digest().String(), Lower: lower, Config: config.Config}, s.catalog.Touch(in, n, i)
}

// Release ends a label's pull and removes its fetched data, or lets its image go.
// NotExist when it has neither. The image of a container that still exists is let go
// once the container is gone.
func (s *Store) Release(ctx context.Context, label string) error {
	if err := checkLabel(label); err != nil {
		return err
	}
	ended, err := s.pulls.stop(ctx, label)
	if err != nil {
		return err
	}
	s.waste.chargeUnused(label)
	return s.catalog.Release(ctx, label, ended)
}

// Run collects unused images until ctx ends, with jitter.
func (s *Store) Run(ctx context.Context) error {
	for {
		pause := s.collection.Every/2 + rand.N(s.collection.Every)
		select {
		case <-ctx.Done():
			return nil
		case <-s.clock.After(pause):
		}
		if err := s.Collect(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn().Str("step", "collect").Err(err).Msg("cannot look for unused images")
		}
	}
}

// Collect removes images that nothing has used for long, and while the file
// system is too full, the longest unused ones.
func (s *Store) Collect(ctx context.Context) error {
	s.pulls.expire()
	pulling := func(label string) bool {
		j := s.pulls.of(label)
		return j != nil && j.running()
	}
	if err := s.catalog.Settle(ctx, pulling); err != nil {
		return err
	}
	if err := s.catalog.EvictUnused(ctx, s.collection.Unused); err != nil {
		return err
	}
	return s.catalog.EvictUntil(ctx, "", func() (bool, error) {
		sp, err := s.disk.usage(ctx)
		return float64(sp.Used) <= s.collection.Full*float64(sp.Total), err
	})
}

// Status is how much the images take.
func (s *Store) Status(ctx context.Context) (node.ImageStatus, error) {
	sp, err := s.disk.usage(ctx)
	if err != nil {
		return node.ImageStatus{}, err
	}
	images, size, err := s.catalog.Totals(ctx)
	return node.ImageStatus{Used: sp.Used, Total: sp.Total, Images: images, Size: size, Removed: s.catalog.Removed()}, err
}
