package run_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/run"
)

// All are under way at once, all are awaited, and the first error is told.
func TestAll(t *testing.T) {
	var both sync.WaitGroup
	both.Add(2)
	meet := func() error { both.Done(); both.Wait(); return nil }
	if err := run.All(zerolog.Nop(), "test", meet, meet); err != nil {
		t.Error(err)
	}
	first, second := errors.New("first"), errors.New("second")
	ended := false
	err := run.All(zerolog.Nop(), "test", func() error { return nil }, func() error { return first }, func() error { return second },
		func() error { ended = true; return nil })
	if !errors.Is(err, first) || !ended {
		t.Errorf("it is %v, the last has ended: %t", err, ended)
	}
	var p *run.Panic
	if err := run.All(zerolog.Nop(), "test", func() error { panic("here") }); !errors.As(err, &p) {
		t.Errorf("a panic is %v", err)
	}
	if err := run.All(zerolog.Nop(), "test"); err != nil {
		t.Error(err)
	}
}
