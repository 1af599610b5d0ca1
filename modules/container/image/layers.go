package image

import (
	"context"
	"time"

	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/croft-edge/croft/modules/container/image/unpack"
	"github.com/croft-edge/croft/pkg/node"
)

func chainOf(diffs []digest.Digest) digest.Digest { return identity.ChainID(diffs) }

// layers fetches and unpacks those layers of an image that aren't unpacked yet.
func (a *attempt) layers(ctx context.Context, c chosen) (*unpack.Bounds, error) {
	diffs := c.config.RootFS.DiffIDs
	done := 0
	u := &unpack.Bounds{MostBytes: a.store.cfg.MaxSize, MostFiles: a.store.cfg.MaxFiles}
	if left := a.store.cfg.UserBudget - a.before; a.counted() && left < u.MostBytes {
		u.MostBytes = left
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
		u.Bytes, u.Files = u.Bytes+usage.Size, u.Files+usage.Inodes
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
	a.fetched()
	for i, l := range wanted {
		if err := a.unpackInTurns(ctx, l, diffs[:done+i+1], u); err != nil {
			return nil, err
		}
	}
	return u, nil
}

// mostDoublings is how often a layer's turn becomes twice as long: from half a minute to more
// than any layer may take.
const mostDoublings = 6

// unpackInTurns unpacks a layer. One whose turn is over while others wait is begun
// anew behind them, with a turn that is twice as long.
func (a *attempt) unpackInTurns(ctx context.Context, layer ocispec.Descriptor, diffs []digest.Digest, u *unpack.Bounds) error {
	for n := 0; ; n++ {
		again, err := a.unpackInTurn(ctx, n, func(turn context.Context) error { return a.unpack(turn, layer, diffs, u) })
		if !again {
			return err
		}
	}
}

func (a *attempt) unpackInTurn(ctx context.Context, n int, do func(context.Context) error) (again bool, err error) {
	s, user := a.store, a.job.spec.User
	back, err := s.unpacks.Take(ctx, user, n == 0)
	if err != nil {
		return false, backend(err, "unpack a layer")
	}
	defer back()
	if err := a.mayGoOn(); err != nil {
		return false, err
	}
	turn, end := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.watchUnpack(turn, end, s.cfg.UnpackTurn<<min(n, mostDoublings), user)
	}()
	began := s.cfg.Clock.Boot()
	err = do(turn)
	over := turn.Err() != nil && ctx.Err() == nil
	if !over { // a turn that others have ended isn't the user's
		a.job.spend(s.cfg.Clock.Boot() - began)
	}
	end()
	<-watched
	return over && err != nil, err
}

// watchUnpack ends a turn that is over as soon as somebody else wants it.
func (s *Store) watchUnpack(ctx context.Context, end context.CancelFunc, turn time.Duration, user string) {
	for {
		timer := s.cfg.Clock.NewTimer(turn)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
		if s.unpacks.Wanted(user, false) {
			end()
			return
		}
		turn = min(turn, time.Second)
	}
}

// unpack makes one layer a snapshot.
func (a *attempt) unpack(ctx context.Context, layer ocispec.Descriptor, diffs []digest.Digest, u *unpack.Bounds) error {
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
	s.forgetCost(label)
	config, from, err := p.config(in, o)
	if err != nil {
		return Layers{}, err
	}
	mounts, err := p.view(in, from, chainOf(config.RootFS.DiffIDs))
	if err != nil {
		return Layers{}, backend(err, "find the layers of "+label)
	}
	lower, err := lowerOf(mounts)
	if err != nil {
		return Layers{}, err
	}
	return Layers{Digest: o.digest().String(), Lower: lower, Config: config.Config}, s.touch(in, p, o)
}

// view asks where a user's unpacked layers are. Only a snapshot of the kind that
// can be mounted has an answer, so one is made of them, read-only: once, for all
// containers on them, because it costs containerd two fsyncs. The config from
// which the layers are known holds it, so it goes with the image.
func (p parts) view(ctx context.Context, from, chain digest.Digest) ([]mount.Mount, error) {
	key := viewPrefix + chain.String()
	mounts, err := p.snapshots.Mounts(ctx, key)
	if !errdefs.IsNotFound(err) {
		return mounts, err
	}
	// The config comes first: what it doesn't hold may be collected at once, and
	// what nobody looks for would stay.
	if err := p.refer(ctx, from, map[string]string{refView: key}); err != nil {
		return nil, err
	}
	mounts, err = p.snapshots.View(ctx, key, chain.String())
	if errdefs.IsAlreadyExists(err) {
		return p.snapshots.Mounts(ctx, key)
	}
	return mounts, err
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
