package main

import (
	"context"
	"slices"
	"time"

	"github.com/croft-edge/croft/internal/guest"
)

// buttonPause is the pause before a button that couldn't be watched is looked for again.
const buttonPause = time.Second

// buttons watches the machine's power buttons. Their drivers may come late, and a button may go and come back.
type buttons struct {
	// find are the devices of those that are there; watch returns when one can't be watched any more.
	find  func() []string
	watch func(device string) error
	say   func(format string, args ...any)
}

// run watches each button that is there, until ctx is done. next is closed at the next change of the machine's devices, ready once the drivers
// of all that were there at its start are loaded.
func (b buttons) run(ctx context.Context, next func() <-chan struct{}, ready <-chan struct{}) error {
	var watched []string
	ended := make(chan string)
	for {
		changed := next()
		for _, device := range b.find() {
			if slices.Contains(watched, device) {
				continue
			}
			watched = append(watched, device)
			go func() {
				b.say("%v", b.watch(device))
				select {
				case ended <- device:
				case <-ctx.Done():
				}
			}()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-ready:
			if len(watched) == 0 {
				b.say("%v", guest.ErrNoPowerButton)
			}
			ready = nil
		case device := <-ended:
			watched = slices.DeleteFunc(watched, func(one string) bool { return one == device })
			pause(ctx, buttonPause)
		}
	}
}
