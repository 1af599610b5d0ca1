package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/croft-edge/croft/pkg/clip"
	"github.com/croft-edge/croft/pkg/nocloud"
)

// repeatEvery is how often the machine's state and its host keys are shown again: a console's log keeps only the last lines.
const repeatEvery = 30 * time.Minute

// longestState is how long a state is shown, in bytes.
const longestState = 400

// report shows the machine's state on the console, where the node reads it.
func report(state string) {
	fmt.Fprintln(os.Stdout, nocloud.Report+strings.Join(strings.Fields(state), " "))
}

// status is the machine's state. It is safe for concurrent use.
type status struct {
	mu   sync.Mutex
	last string
}

// set shows a state if it has changed.
func (s *status) set(format string, args ...any) {
	state := clip.Line(fmt.Sprintf(format, args...), longestState)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != state {
		s.last = state
		report(state)
	}
}

func (s *status) repeat() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != "" {
		report(s.last)
	}
}
