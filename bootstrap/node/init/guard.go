package main

import (
	"context"
	"io"
	"strings"
	"sync"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/supervise"
)

// keep runs f on a goroutine of its own, and again when it ends early or panics.
func (j *journal) keep(ctx context.Context, name string, f func(ctx context.Context) error) {
	go func() { _ = supervise.Keep(ctx, j.logger(), name, supervise.DefaultBackoff(), f) }() // its failures are logged
}

// once runs f once, on a goroutine of its own; its failure is a problem of that name.
func (j *journal) once(ctx context.Context, name string, f func(ctx context.Context) error) {
	go func() {
		err := supervise.Catch(name, func() error { return f(ctx) })
		if ctx.Err() == nil {
			j.wrong(name, err)
		}
	}()
}

// logger writes what supervise logs as lines of the journal.
func (j *journal) logger() zerolog.Logger {
	return zerolog.New(zerolog.ConsoleWriter{Out: lines{j}, NoColor: true, PartsExclude: []string{zerolog.TimestampFieldName}})
}

// lines is a writer whose writes are lines of a journal.
type lines struct{ journal *journal }

var _ io.Writer = lines{}

// Write implements io.Writer.
func (l lines) Write(p []byte) (int, error) {
	l.journal.say("%s", strings.TrimSpace(string(p)))
	return len(p), nil
}

// changed tells those who wait that something has changed.
type changed struct {
	mu sync.Mutex
	ch chan struct{}
}

func newChanged() *changed { return &changed{ch: make(chan struct{})} }

// tell wakes all who wait.
func (c *changed) tell() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.ch)
	c.ch = make(chan struct{})
}

// next is closed at the next change.
func (c *changed) next() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ch
}
