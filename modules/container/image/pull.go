package image

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/croft-edge/croft/pkg/node"
)

// job is a pull that runs or has failed. One that succeeded is forgotten: what
// it made is in containerd.
type job struct {
	spec   node.ImageSpec
	target target
	cancel context.CancelFunc
	done   chan struct{}

	mu sync.Mutex
	// spent is how long layers were unpacked.
	spent    time.Duration
	image    node.Image
	err      error
	failures int
	again    time.Time
	ended    time.Time
}

// mostPause is the longest pause between two attempts.
const mostPause = time.Minute

// moment is how long Pull waits for what needs no network.
const moment = 100 * time.Millisecond

// Pull starts or continues to fetch an image and returns within a moment: see
// node.Images. After a failure that isn't final it returns that failure until
// the pause is over.
func (s *Store) Pull(ctx context.Context, spec node.ImageSpec) (node.Image, error) {
	t, err := s.cfg.check(spec)
	if err != nil {
		return node.Image{}, err
	}
	have, err := s.have(ctx, spec)
	if err != nil || have.Ready {
		return have, err
	}
	near, err := s.near(ctx, spec.User, t)
	if err != nil {
		return node.Image{}, err
	}
	begun, image, err := s.begin(spec, t)
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

// near reports whether a reference leads to what is on this node.
func (s *Store) near(ctx context.Context, user string, t target) (bool, error) {
	if t.local() || t.digest == "" {
		return t.local(), nil
	}
	in, p, err := s.parts(ctx, user)
	if err != nil {
		return false, err
	}
	_, known, err := p.known(in, t)
	return known, err
}

// begin begins an attempt, unless one runs or a pause isn't over: then it says
// what there is to say of that.
func (s *Store) begin(spec node.ImageSpec, t target) (begun *job, image node.Image, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.alive.Err() != nil {
		return nil, node.Image{}, node.Errorf(node.Transient, "cannot pull an image: the module is ending")
	}
	j := s.jobs[spec.Label]
	if j != nil && j.running() && j.spec.Hash != spec.Hash {
		return nil, node.Image{}, node.Claim{Hash: spec.Hash}.Check("pull an image for "+spec.Label, j.spec.Hash)
	}
	if j != nil && j.running() && !j.gets(spec) {
		return nil, node.Image{}, node.Errorf(node.Busy, "cannot pull %s for %s: %s is being pulled for it", t.text, spec.Label, j.target.text)
	}
	if j != nil && j.gets(spec) {
		image, err, wait := j.answer(s.cfg.Clock.Now())
		if wait {
			return nil, image, err
		}
	}
	begun = s.start(spec, t, j)
	return begun, begun.shown(), nil
}

// gets reports whether a job's image is what a spec asks for.
func (j *job) gets(spec node.ImageSpec) bool {
	spec.AdoptUnlabelled = j.spec.AdoptUnlabelled // it says nothing of the image
	return j.spec == spec
}

// have is the image that a label has already. One without a hash gets the caller's.
func (s *Store) have(ctx context.Context, spec node.ImageSpec) (node.Image, error) {
	in, p, err := s.parts(ctx, spec.User)
	if err != nil {
		return node.Image{}, err
	}
	o, err := p.get(in, labelPrefix+spec.Label)
	switch {
	case node.KindOf(err) == node.NotExist || err == nil && o.released:
		return node.Image{}, nil
	case err != nil:
		return node.Image{}, err
	}
	if err := claimOf(spec).Check("pull an image for "+spec.Label, o.hash); err != nil {
		return node.Image{}, err
	}
	if o.reference != spec.Reference {
		return node.Image{}, node.Errorf(node.Exist, "cannot pull %.200q for %s: it has %.200q", spec.Reference, spec.Label, o.reference)
	}
	if o.hash != spec.Hash {
		if o, err = s.claim(in, p, o.name, spec); err != nil {
			return node.Image{}, err
		}
	}
	return o.image(), nil
}

// claim writes the caller's hash to a label's image that had none.
func (s *Store) claim(ctx context.Context, p parts, name string, spec node.ImageSpec) (pinned, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	o, err := p.get(ctx, name)
	if node.KindOf(err) == node.NotExist {
		return o, node.Errorf(node.Transient, "cannot pull an image for %s: it is being released", spec.Label)
	}
	if err == nil {
		err = claimOf(spec).Check("pull an image for "+spec.Label, o.hash)
	}
	if err != nil {
		return o, err
	}
	o.hash = spec.Hash
	return o, p.write(ctx, o)
}

// start begins an attempt. s.mu is held.
func (s *Store) start(spec node.ImageSpec, t target, before *job) *job {
	ctx, cancel := context.WithCancel(s.alive)
	j := &job{spec: spec, target: t, cancel: cancel, done: make(chan struct{})}
	j.image = node.Image{Label: spec.Label, Reference: spec.Reference, User: spec.User, Hash: spec.Hash}
	if before != nil && before.gets(spec) {
		j.failures = before.failures
	}
	s.jobs[spec.Label] = j
	s.all.Add(1)
	go func() {
		defer s.all.Done()
		defer cancel()
		err := s.attempt(ctx, j)
		s.finish(ctx, j, err)
	}()
	return j
}

// finish notes how an attempt ended. A failure that is final leaves nothing
// behind; after another one what was fetched waits for the next.
func (s *Store) finish(ctx context.Context, j *job, err error) {
	defer close(j.done)
	log := s.cfg.Log.With().Str("id", j.spec.Label).Str("type", "image").Str("reference", j.target.text).Logger()
	if err == nil {
		log.Info().Str("step", "pull").Str("digest", j.shown().Digest).Msg("pulled")
		s.mu.Lock()
		delete(s.jobs, j.spec.Label)
		s.mu.Unlock()
		return
	}
	s.forgetCost(j.spec.Label)
	s.charge(ctx, j, err)
	if ctx.Err() != nil {
		// Who ended it says what is left: Close all of it, Release nothing.
		j.fail(node.Errorf(node.Transient, "cannot pull %s: it was broken off", j.target.text), s.cfg)
		return
	}
	if node.KindOf(err).Final() {
		in, cancel := context.WithTimeout(context.WithoutCancel(ctx), longestCall)
		defer cancel()
		if err := s.clean(in, j.spec.User, j.spec.Label); err != nil {
			log.Error().Err(err).Str("step", "clean").Msg("what a failed pull has fetched stays for now")
		}
	}
	log.Warn().Err(err).Str("step", "pull").Msg("cannot pull an image")
	j.fail(err, s.cfg)
}

func (j *job) fail(err error, c Config) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.err, j.ended = err, c.Clock.Now()
	pause := min(c.Backoff<<min(j.failures, 10), mostPause)
	j.failures++
	j.again = j.ended.Add(pause/2 + rand.N(pause/2+1))
}

func (j *job) failure() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

func (j *job) running() bool {
	select {
	case <-j.done:
		return false
	default:
		return true
	}
}

// answer is what a call is told, unless it is time for another attempt.
func (j *job) answer(now time.Time) (image node.Image, err error, wait bool) { //nolint:revive // the error isn't this function's
	if j.running() {
		return j.shown(), nil, true
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	kind := node.KindOf(j.err)
	final := kind == node.Invalid || kind == node.Refused
	return node.Image{}, j.err, final || now.Before(j.again)
}

func (j *job) shown() node.Image {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.image
}

// unpacked is how long layers were unpacked.
func (j *job) unpacked() time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.spent
}

// spend notes that layers were unpacked for so long.
func (j *job) spend(d time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.spent += d
}

// progress changes what is shown of a pull.
func (j *job) progress(change func(i *node.Image)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	change(&j.image)
}
