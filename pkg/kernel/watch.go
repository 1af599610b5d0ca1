package kernel

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/backoff"
	"github.com/croft-edge/croft/pkg/clip"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/supervise"
)

// Feature is something of the kernel that a module uses.
type Feature struct {
	Name string
	// Effect says what is so without it: what doesn't work or, if Degraded, how all works without it.
	Effect   string
	Degraded bool
	// Always has it tried again also while it is there: what is known of it changes.
	Always bool
	// Try says why the machine doesn't have it, by trying; nil when it does. Unknown says that it can't tell now.
	Try func(ctx context.Context) error
}

// errUnknown is why nothing is known.
var errUnknown = errors.New("cannot tell whether the kernel has a feature")

// Unknown is why a try can't tell: what was known before stays.
func Unknown(err error) error { return node.Errorf(node.Transient, "%w: %w", errUnknown, err) }

// Every is the pause between two tries of features that are lacking, give or take a fifth.
const Every = 5 * time.Minute

const (
	// tryTime is how long one try may take.
	tryTime = 10 * time.Second
	// mostWhy bounds a reason, in bytes.
	mostWhy = 512
)

// Watch keeps what a module lacks. It implements node.Kernel.
type Watch struct {
	module   string
	features []Feature
	log      zerolog.Logger

	mu    sync.Mutex
	tried bool
	// lacks is why features are lacking; trying are those whose last try hasn't returned.
	// unknown those of which nothing is known.
	lacks           map[string]string
	trying, unknown map[string]bool
}

// NewWatch makes the watch of a module's features; Run tries them.
func NewWatch(module string, features []Feature, log zerolog.Logger) *Watch {
	return &Watch{module: module, features: features, log: log, lacks: map[string]string{}, trying: map[string]bool{}, unknown: map[string]bool{}}
}

// Lacks implements node.Kernel.
func (w *Watch) Lacks() (node.KernelState, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := node.KernelState{Tried: w.tried, Lacks: []node.KernelLack{}}
	for _, f := range w.features {
		if why, lacking := w.lacks[f.Name]; lacking {
			out.Lacks = append(out.Lacks, node.KernelLack{Feature: f.Name, State: f.state(), Why: why, Effect: f.Effect})
		}
	}
	return out, nil
}

func (f Feature) state() string {
	if f.Degraded {
		return node.KernelDegraded
	}
	return node.KernelMissing
}

// Run tries all features, and those that are lacking again, until ctx is done. It doesn't wake up for what is there, but for those with Always.
func (w *Watch) Run(ctx context.Context) error {
	due := w.features
	for {
		for _, f := range due {
			w.try(ctx, f)
			if ctx.Err() != nil {
				return nil
			}
		}
		w.mu.Lock()
		w.tried = true
		due = slices.DeleteFunc(slices.Clone(w.features), func(f Feature) bool {
			_, lacking := w.lacks[f.Name]
			return !lacking && !w.unknown[f.Name] && !f.Always
		})
		w.mu.Unlock()
		if len(due) == 0 {
			<-ctx.Done()
			return nil
		}
		again := time.NewTimer(backoff.Together(backoff.Around(Every)))
		select {
		case <-ctx.Done():
			again.Stop()
			return nil
		case <-again.C:
		}
	}
}

// try tries a feature. A try that doesn't return in time is left behind, and there is no other one beside it.
func (w *Watch) try(ctx context.Context, f Feature) {
	w.mu.Lock()
	hangs := w.trying[f.Name]
	w.trying[f.Name] = true
	w.mu.Unlock()
	if hangs {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	done := make(chan error, 1)
	go supervise.Do(w.log, "kernel features", func() {
		err := supervise.Guard(w.log, "kernel features", func() error { return f.Try(ctx) })
		w.mu.Lock()
		delete(w.trying, f.Name)
		w.mu.Unlock()
		done <- err
	})
	select {
	case err := <-done:
		if ctx.Err() == nil || err == nil {
			w.seen(f, err)
			return
		}
	case <-ctx.Done():
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		w.seen(f, errors.Errorf("trying it doesn't end within %s", tryTime))
	}
}

// seen notes what a try has shown, and logs what is new.
func (w *Watch) seen(f Feature, err error) {
	w.mu.Lock()
	before, lacked := w.lacks[f.Name]
	w.unknown[f.Name] = errors.Is(err, errUnknown)
	if w.unknown[f.Name] {
		w.mu.Unlock()
		return
	}
	delete(w.lacks, f.Name)
	if err != nil {
		w.lacks[f.Name] = clip.Text(err.Error(), mostWhy)
	}
	now, lacking := w.lacks[f.Name]
	w.mu.Unlock()
	switch event := w.log.Info(); {
	case now == before && lacking == lacked:
	case !lacking:
		event.Str("module", w.module).Str("feature", f.Name).Msg("the kernel has a feature that it lacked")
	default:
		if !f.Degraded {
			event = w.log.Warn()
		}
		event.Str("module", w.module).Str("feature", f.Name).Str("why", now).Str("effect", f.Effect).Msg("the kernel lacks a feature")
	}
}
