package debug

import (
	"strings"
	"sync"
	"unicode"
)

// delivery counts a stream's delivered lines and records its connection's state.
type delivery struct {
	mu sync.Mutex
	deliveryState
}

// deliveryState is a copy of a delivery's numbers.
type deliveryState struct {
	connected bool
	sent      uint64
	// failed counts the lines that were taken off the queue and not delivered.
	failed uint64
	// lastError is why there is no connection; empty while there is one.
	lastError string
}

func (d *delivery) snapshot() deliveryState {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.deliveryState
}

func (d *delivery) connect() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.connected, d.lastError = true, ""
}

// disconnect records that there is no connection. An empty cause keeps lastError.
func (d *delivery) disconnect(cause string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.connected = false
	if cause != "" {
		d.lastError = cause
	}
}

func (d *delivery) add(sent, failed uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sent += sent
	d.failed += failed
}

// maxCause is how many bytes of an error are kept: a part of it comes from a
// server that a tenant chose.
const maxCause = 400

// printable is an error's text without control characters, at most maxCause long.
func printable(err error) string {
	text := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, err.Error())
	if len(text) > maxCause {
		text = strings.ToValidUTF8(text[:maxCause], "") + "…"
	}
	return text
}
