package image

import (
	"context"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/modules/container/image/source"
	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/node"
)

// errClosed is the cause with which the contexts of all jobs end in close.
var errClosed = errors.New("the module is ending")

// failureKept is how long a job's failure is kept to answer repeated requests.
const failureKept = time.Hour

// pulls are the jobs that run or have failed, by label. It is safe for concurrent use.
type pulls struct {
	alive context.Context // it is the store's life
	end   context.CancelCauseFunc
	ends  sync.WaitGroup
	// do pulls a job's image; set before the first begin.
	do      func(ctx context.Context, j *job) error
	backoff time.Duration
	clock   clock.Clock

	mu   sync.Mutex
	jobs map[string]*job
}

func newPulls(c clock.Clock, backoff time.Duration) *pulls {
	alive, end := context.WithCancelCause(context.Background())
	return &pulls{alive: alive, end: end, jobs: map[string]*job{}, clock: c, backoff: backoff}
}

// close ends all jobs and waits for them.
func (p *pulls) close() {
	p.end(errClosed)
	p.ends.Wait()
}

// begin begins a job, unless one runs or its pause isn't over: then begun is nil, and
// the others are the answer.
func (p *pulls) begin(spec node.ImageSpec, ref source.Reference) (begun *job, image node.Image, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.alive.Err() != nil {
		return nil, node.Image{}, node.Errorf(node.Transient, "cannot pull an image: the module is ending")
	}
	j := p.jobs[spec.Label]
	if j != nil && j.running() && j.spec.Hash != spec.Hash {
		return nil, node.Image{}, node.Claim{Hash: spec.Hash}.Check("pull an image for "+spec.Label, j.spec.Hash)
	}
	if j != nil && j.running() && !j.gets(spec) {
		return nil, node.Image{}, node.Errorf(node.Busy, "cannot pull %s for %s: %s is being pulled for it", ref.Text, spec.Label, j.ref.Text)
	}
	if j != nil && j.gets(spec) {
		image, err, wait := j.answer(p.clock.Now())
		if wait {
			return nil, image, err
		}
	}
	begun = p.start(spec, ref, j)
	return begun, begun.shown(), nil
}

// start begins a job. p.mu is held.
func (p *pulls) start(spec node.ImageSpec, ref source.Reference, before *job) *job {
	ctx, cancel := context.WithCancel(p.alive)
	j := &job{spec: spec, ref: ref, cancel: cancel, done: make(chan struct{})}
	j.image = node.Image{Label: spec.Label, Reference: spec.Reference, User: spec.User, Hash: spec.Hash}
	if before != nil && before.gets(spec) {
		j.failures = before.failures
	}
	p.jobs[spec.Label] = j
	p.ends.Add(1)
	go func() {
		defer p.ends.Done()
		defer cancel()
		defer close(j.done)
		if err := p.do(ctx, j); err != nil {
			j.fail(err, p.clock.Now(), p.backoff)
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.jobs, spec.Label)
	}()
	return j
}

// of is a label's job, or nil.
func (p *pulls) of(label string) *job {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.jobs[label]
}

// shown are the images of the jobs that run, by label.
func (p *pulls) shown() map[string]node.Image {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string]node.Image{}
	for label, j := range p.jobs {
		if j.running() {
			out[label] = j.shown()
		}
	}
	return out
}

// running reports whether a user has a job that runs, for another label than but.
func (p *pulls) running(user, but string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for label, j := range p.jobs {
		if label != but && j.spec.User == user && j.running() {
			return true
		}
	}
	return false
}

// bytes are those that a user's running jobs fetch, but for one job.
func (p *pulls) bytes(user string, but *job) (total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, j := range p.jobs {
		if j != but && j.spec.User == user && j.running() {
			total += int64(j.shown().Total)
		}
	}
	return total
}

// stop ends a label's job, and forgets it.
func (p *pulls) stop(ctx context.Context, label string) (found bool, err error) {
	j := p.of(label)
	if j == nil {
		return false, nil
	}
	j.cancel()
	select {
	case <-j.done:
	case <-ctx.Done():
		return true, node.Errorf(node.Transient, "cannot release %s: its pull doesn't end: %w", label, ctx.Err())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.jobs[label] == j {
		delete(p.jobs, label)
	}
	return true, nil
}

// expire forgets old failures.
func (p *pulls) expire() {
	now := p.clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for label, j := range p.jobs {
		if !j.running() && now.Sub(j.ended) > failureKept {
			delete(p.jobs, label)
		}
	}
}
