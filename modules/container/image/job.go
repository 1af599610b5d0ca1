package image

import (
	"context"
	"sync"
	"time"

	"github.com/croft-edge/croft/modules/container/image/source"
	"github.com/croft-edge/croft/pkg/backoff"
	"github.com/croft-edge/croft/pkg/node"
)

// job is a pull that runs or has failed. One that succeeded is forgotten: its image
// is in the catalog.
type job struct {
	spec   node.ImageSpec
	ref    source.Reference
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

// gets reports whether a job's image is the one that a spec asks for.
func (j *job) gets(spec node.ImageSpec) bool {
	spec.AdoptUnlabelled = j.spec.AdoptUnlabelled // it says nothing of the image
	return j.spec == spec
}

// fail records a failure, and when the next attempt may begin.
func (j *job) fail(err error, now time.Time, base time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.err, j.ended = err, now
	j.failures++
	j.again = j.ended.Add(backoff.Backoff{Base: base, Max: mostPause}.Delay(j.failures))
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

// answer is the result of a call, unless it is time for another attempt.
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

// spend adds to the time that layers were unpacked.
func (j *job) spend(d time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.spent += d
}

// progress changes the visible state of a pull.
func (j *job) progress(change func(i *node.Image)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	change(&j.image)
}
