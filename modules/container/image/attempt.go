package image

import (
	"context"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/croft-edge/croft/modules/container/image/document"
	"github.com/croft-edge/croft/pkg/node"
)

// attempt is one try to get a job's image.
type attempt struct {
	store  *Store
	job    *job
	parts  parts
	source source
	lease  leases.Lease
	// fetched gives back the slot for fetching.
	fetched func()
	// before are the user's bytes without this image.
	before int64
}

// chosen is an image for this machine, before its layers are here.
type chosen struct {
	manifest ocispec.Descriptor
	document document.Document
	config   ocispec.Image
	total    int64
}

func (s *Store) attempt(ctx context.Context, j *job) error {
	give, err := s.same.take(ctx, j.spec.User+" "+j.target.text)
	if err != nil {
		return err
	}
	defer give()
	for {
		again, err := s.inTurn(ctx, j)
		if !again {
			return err
		}
	}
}

// inTurn is an attempt that ends when its turn is over: then it goes on later.
func (s *Store) inTurn(ctx context.Context, j *job) (again bool, err error) {
	back, err := s.pulls.Take(ctx, j.spec.User, true)
	if err != nil {
		return false, err
	}
	defer back()
	turn, end := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.watchTurn(turn, end, j)
	}()
	err = s.once(turn, j, back)
	over := turn.Err() != nil && ctx.Err() == nil
	end()
	<-watched
	return over && err != nil, err
}

// watchTurn ends a pull's turn when it fetches for long while others wait.
// Whoever sends a byte now and then would else keep them all from pulling.
func (s *Store) watchTurn(ctx context.Context, end context.CancelFunc, j *job) {
	for {
		timer := s.cfg.Clock.NewTimer(s.cfg.Turn)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
		if s.pulls.Wanted(j.spec.User, true) && !j.shown().Unpacking {
			end()
			return
		}
	}
}

// once does all of an attempt. fetched is called when its slot isn't needed any more.
func (s *Store) once(ctx context.Context, j *job, fetched func()) error {
	if _, _, o, err := s.find(ctx, j.spec.Label); err == nil {
		if o.user != j.spec.User {
			return node.Errorf(node.Exist, "cannot pull an image for %s: it is another user's", j.spec.Label)
		}
		// One that was released has still a container on it.
		if err := claimOf(j.spec).Check("pull an image for "+j.spec.Label, o.hash); err != nil {
			return err
		}
	}
	in, p, err := s.parts(ctx, j.spec.User)
	if err != nil {
		return err
	}
	err = (&attempt{store: s, job: j, parts: p, fetched: fetched}).run(in)
	if node.KindOf(err) == node.NotExist {
		// Something was removed meanwhile: it is fetched again.
		err = node.Errorf(node.Transient, "cannot pull %s: %w", j.target.text, err)
	}
	return err
}

func (a *attempt) run(ctx context.Context) error {
	t := a.job.target
	known, cached, err := a.parts.known(ctx, t)
	if err != nil {
		return err
	}
	if cached && t.digest != "" {
		return a.keep(ctx, known)
	}
	if a.source, err = a.store.open(t, a.job.spec.Auth); err != nil {
		return err
	}
	defer a.source.Close()
	root, err := a.resolve(ctx, cached)
	if err != nil && cached && node.KindOf(err) == node.Transient && ctx.Err() == nil {
		a.store.cfg.Log.Warn().Err(err).Str("id", a.job.spec.Label).Str("type", "image").Str("step", "resolve").
			Str("digest", known.digest().String()).Msg("the registry doesn't answer: what the tag led to before is used")
		return a.keep(ctx, known)
	}
	if err != nil {
		return err
	}
	return a.fetch(ctx, root)
}

// resolve asks where the reference leads now; not for long when it is known
// where it led before.
func (a *attempt) resolve(ctx context.Context, cached bool) (ocispec.Descriptor, error) {
	if cached {
		short, cancel := context.WithTimeout(ctx, a.store.cfg.Answer)
		defer cancel()
		ctx = short
	}
	return a.source.Resolve(ctx)
}

// fetch gets all of the image and unpacks it, under a lease that holds what is
// fetched until it is.
func (a *attempt) fetch(ctx context.Context, root ocispec.Descriptor) error {
	if known, ok, err := a.standing(ctx, root); err != nil {
		return err
	} else if ok {
		return a.keep(ctx, known)
	}
	if err := a.mayGoOn(); err != nil {
		return err
	}
	ctx, err := a.hold(ctx)
	if err != nil {
		return err
	}
	c, err := a.choose(ctx, root)
	if err != nil {
		return err
	}
	a.job.progress(func(i *node.Image) { i.Digest = c.manifest.Digest.String() })
	if known, ok, err := a.parts.byDigest(ctx, c.manifest.Digest); err != nil {
		return err
	} else if ok {
		return a.keep(ctx, known)
	}
	if err := a.admit(ctx, c); err != nil {
		return err
	}
	u, err := a.layers(ctx, c)
	if err != nil {
		return err
	}
	a.store.keepCost(a.job) // before anybody can use it
	if err := a.link(ctx, c); err != nil {
		return err
	}
	return a.keep(ctx, pinned{target: c.manifest, size: u.Bytes + c.manifest.Size + c.document.Config.Size})
}

// standing is the image that a reference leads to when the user has it already:
// then nothing is fetched, and containerd needn't write what holds it.
func (a *attempt) standing(ctx context.Context, root ocispec.Descriptor) (pinned, bool, error) {
	if root.Data != nil {
		// A layout's own index. What is wrong with it shows when it is read again.
		d, err := document.Decode(root.Data, root.MediaType)
		if err != nil {
			return pinned{}, false, nil //nolint:nilerr // see above
		}
		fit, err := choose(d.Manifests)
		if err != nil || len(fit) != 1 {
			return pinned{}, false, nil //nolint:nilerr // see above
		}
		root = fit[0]
	}
	known, ok, err := a.parts.byDigest(ctx, root.Digest)
	return known, ok && known.target.Size == root.Size, err
}

// hold makes the lease, or takes that of the attempt before.
func (a *attempt) hold(ctx context.Context) (context.Context, error) {
	id := leasePrefix + a.job.spec.Label
	l, err := a.parts.leases.Create(ctx, leases.WithID(id), leases.WithLabels(map[string]string{keyReservation: a.job.spec.Label}))
	if errdefs.IsAlreadyExists(err) {
		l, err = leases.Lease{ID: id}, nil
	}
	a.lease = l
	return leases.WithLease(ctx, id), backend(err, "hold what is pulled")
}

// also puts what was here before under the lease.
func (a *attempt) also(ctx context.Context, kind, id string) error {
	err := a.parts.leases.AddResource(ctx, leases.Lease{ID: a.lease.ID}, leases.Resource{ID: id, Type: kind})
	return backend(err, "hold what is pulled")
}

// What containerd's garbage collector follows: a config holds its unpacked layers
// and the view of them, a manifest its config.
const (
	refLayers = "containerd.io/gc.ref.snapshot." + snapshotter
	refView   = refLayers + "/croft.view"
	refConfig = "containerd.io/gc.ref.content.config"
)

// link makes the config part of the manifest, and the unpacked layers and the
// view of them, which is made later, part of the config, in the eyes of
// containerd's garbage collector. The packed layers aren't.
func (a *attempt) link(ctx context.Context, c chosen) error {
	chain := chainOf(c.config.RootFS.DiffIDs).String()
	config := c.document.Config.Digest
	if err := a.parts.refer(ctx, config, map[string]string{refLayers: chain, refView: viewPrefix + chain}); err != nil {
		return backend(err, "keep an image")
	}
	return backend(a.parts.refer(ctx, c.manifest.Digest, map[string]string{refConfig: config.String()}), "keep an image")
}

// refer has a blob hold what the labels name. One that does already isn't
// written: each write costs containerd an fsync.
func (p parts) refer(ctx context.Context, d digest.Digest, labels map[string]string) error {
	have, err := p.content.Info(ctx, d)
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
	_, err = p.content.Update(ctx, content.Info{Digest: d, Labels: labels}, missing...)
	return err
}

// keep pins an image, and lets go of what was only needed to get it.
func (a *attempt) keep(ctx context.Context, o pinned) error {
	if err := a.store.pin(ctx, a.parts, a.job.spec, a.job.target, o); err != nil {
		return err
	}
	a.job.progress(func(i *node.Image) { i.Digest = o.digest().String() })
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), longestCall)
	defer cancel()
	if err := a.parts.letGo(within, a.job.spec.Label); err != nil {
		a.store.cfg.Log.Warn().Err(err).Str("id", a.job.spec.Label).Str("type", "image").Str("step", "clean").Msg("what a pull needed stays for now")
	}
	return nil
}

// clean removes all that a label's pull has fetched.
func (s *Store) clean(ctx context.Context, user, label string) error {
	in, p, err := s.parts(ctx, user)
	if err != nil {
		return err
	}
	if err := p.letGo(in, label); err != nil {
		return err
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	s.emptied(ctx, user, label)
	return nil
}

// letGo ends a label's lease with what only it holds, and its unfinished blobs.
func (p parts) letGo(ctx context.Context, label string) error {
	started, err := p.content.ListStatuses(ctx, "")
	if err != nil {
		return backend(err, "list unfinished blobs")
	}
	for _, st := range started {
		if ofLabel(st.Ref, label) {
			if err := p.abort(ctx, st.Ref); err != nil {
				return err
			}
		}
	}
	err = p.leases.Delete(ctx, leases.Lease{ID: leasePrefix + label}, leases.SynchronousDelete)
	if err != nil && !errdefs.IsNotFound(err) {
		return backend(err, "end a pull")
	}
	return nil
}

// abort removes an unfinished blob. containerd may still be busy with the end
// of who wrote it.
func (p parts) abort(ctx context.Context, ref string) error {
	const pause, times = 20 * time.Millisecond, 250
	for i := 0; ; i++ {
		err := p.content.Abort(ctx, ref)
		if err == nil || errdefs.IsNotFound(err) {
			return nil
		}
		if i == times {
			return backend(err, "remove an unfinished blob")
		}
		select {
		case <-ctx.Done():
			return backend(err, "remove an unfinished blob")
		case <-time.After(pause):
		}
	}
}
