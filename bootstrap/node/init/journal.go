package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"syscall"

	"github.com/croft-edge/croft/internal/guest"
	"github.com/croft-edge/croft/internal/guest/service"
)

// journal is what init says: on the console, and in a bounded log. It is safe for concurrent use.
type journal struct {
	mu      sync.Mutex
	console io.Writer
	log     *service.Log
	// problems are what is wrong now, by what it is about.
	problems map[string]string
}

func newJournal(console io.Writer) *journal {
	return &journal{console: console, problems: map[string]string{}}
}

// logIn writes a log in a folder from now on.
func (j *journal) logIn(folder string) error {
	log, err := service.OpenLog(folder, "init")
	j.mu.Lock()
	defer j.mu.Unlock()
	j.log = log
	return err
}

// showOn writes to another console from now on; nil for none.
func (j *journal) showOn(console *os.File) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.console = nil
	if console != nil {
		j.console = console
	}
}

// say writes a line, with the time since the machine's start.
func (j *journal) say(format string, args ...any) {
	line := fmt.Sprintf("croft: %7.2f %s\n", guest.UptimeSeconds(), fmt.Sprintf(format, args...))
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.console != nil {
		_, _ = io.WriteString(j.console, line)
	}
	if j.log != nil {
		_, _ = io.WriteString(j.log, line)
	}
}

// wrong remembers what is wrong with something, and says it if that is new. A nil err clears it.
func (j *journal) wrong(about string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	j.mu.Lock()
	before, known := j.problems[about]
	if err == nil {
		delete(j.problems, about)
	} else {
		j.problems[about] = text
	}
	j.mu.Unlock()
	switch {
	case err != nil && before != text:
		j.say("%s: %s", about, text)
	case err == nil && known:
		j.say("%s: all right again", about)
	}
}

// has reports whether something is wrong with that.
func (j *journal) has(about string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	_, wrong := j.problems[about]
	return wrong
}

// problem is something that is wrong now.
type problem struct{ about, text string }

// Things that may be wrong and have places of their own on the screen.
const (
	aboutSettings = "settings"
	aboutUpgrade  = "upgrade"
)

// current are all problems that there are now, sorted by what they are about.
func (j *journal) current() []problem {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := make([]problem, 0, len(j.problems))
	for _, about := range slices.Sorted(maps.Keys(j.problems)) {
		out = append(out, problem{about, j.problems[about]})
	}
	return out
}

// kernelConsole is where the kernel's console is.
func kernelConsole() io.Writer {
	f, err := os.OpenFile("/dev/console", os.O_WRONLY|syscall.O_NOCTTY, 0)
	if err != nil {
		return os.Stdout
	}
	return f
}
