// Package pulse tells whether a thread still turns: one that waits for things to do, does them, and waits again. It costs a thread
// nothing that nobody asks about: two stores into memory a turn, and never a wake-up.
package pulse

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/croft-edge/croft/pkg/node"
)

// Pulse is a thread's. The thread alone calls Left, Moved and Back, and takes what comes from Asked; everybody may call Check.
type Pulse struct {
	name  string
	began time.Time
	asked chan struct{}
	// step is when the thread's present step began, in nanoseconds since began; 0 while it waits for things to do.
	step atomic.Int64
}

// New makes the pulse of the thread of something, such as "the engine", that hasn't begun.
func New(name string) *Pulse {
	return &Pulse{name: name, began: time.Now(), asked: make(chan struct{})}
}

// Asked has a value when somebody asks whether the thread turns: the thread takes it where it waits for things to do, and does nothing for it.
func (p *Pulse) Asked() <-chan struct{} { return p.asked }

// Left says that the thread doesn't wait any more. A step that has begun, such as that of a thread that panicked in it, goes on.
func (p *Pulse) Left() { p.step.CompareAndSwap(0, p.now()) }

// Moved says that the thread has finished a step, and begins another one before it waits again.
func (p *Pulse) Moved() {
	if p.step.Load() != 0 {
		p.step.Store(p.now())
	}
}

// Back says that the thread waits for things to do.
func (p *Pulse) Back() { p.step.Store(0) }

// now is never 0.
func (p *Pulse) now() int64 { return int64(time.Since(p.began)) + 1 }

// patience is how long Check offers the thread its question.
const patience = time.Second

// Check asks the thread whether it turns, and waits for a second at most. An error says that it doesn't take the question, and has been at
// one step for longer than most.
func (p *Pulse) Check(ctx context.Context, most time.Duration) error {
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case p.asked <- struct{}{}:
		return nil
	case <-late.C:
	case <-ctx.Done():
	}
	step := p.step.Load()
	if step == 0 {
		return nil
	}
	if took := time.Duration(p.now() - step); took > most {
		return node.Errorf(node.Transient, "cannot go on with %s: its thread has been at one step for %s, at most %s are allowed", p.name, took.Round(time.Second), most)
	}
	return nil
}
