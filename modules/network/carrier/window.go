package carrier

import (
	"sync"
	"time"
)

// window bounds how many packets a device has in hand in one direction. Its
// own queues would take thousands, each in a buffer of 64 KiB.
//
// Packets that a device drops are never seen to leave it. So a window that
// stays full for as long as leak is taken for empty: it slows a device down
// that drops all it gets, and stops none.
type window struct {
	max  int
	leak time.Duration

	mu    sync.Mutex
	held  int
	freed chan struct{}
}

func newWindow(most int, leak time.Duration) *window {
	return &window{max: most, leak: leak, freed: make(chan struct{}, 1)}
}

// wait returns once there is room for a packet.
func (w *window) wait() {
	var timer *time.Timer
	for {
		w.mu.Lock()
		full := w.held >= w.max
		w.mu.Unlock()
		if !full {
			return
		}
		if timer == nil {
			timer = time.NewTimer(w.leak)
			defer timer.Stop()
		}
		select {
		case <-w.freed:
		case <-timer.C:
			w.mu.Lock()
			w.held = 0
			w.mu.Unlock()
			return
		}
	}
}

// take counts n packets that go in.
func (w *window) take(n int) {
	w.mu.Lock()
	w.held += n
	w.mu.Unlock()
}

// free counts n packets that came out.
func (w *window) free(n int) {
	w.mu.Lock()
	was := w.held
	w.held = max(w.held-n, 0)
	now := w.held
	w.mu.Unlock()
	if was >= w.max && now < w.max {
		select {
		case w.freed <- struct{}{}:
		default:
		}
	}
}
