package console

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/supervise"
)

const (
	// drawEvery is how often a screen is drawn, redrawEvery how often the whole of it: the kernel's messages may have come between.
	drawEvery   = 5 * time.Second
	redrawEvery = time.Minute
	// idleAfter is how long a question or a list waits for a key.
	idleAfter = time.Minute
	// sequenceIn is how long the rest of a key's sequence may take, on a slow serial line too.
	sequenceIn = 50 * time.Millisecond
	// logLines is how many lines of a log are asked for.
	logLines = 200
)

// Terminal is a place where the console is.
type Terminal struct {
	// Path is that of its device, such as /dev/tty1.
	Path string
	// Lines is for a terminal that shows lines one after the other, such as a serial line: it gets summaries in the place of a screen.
	Lines bool
}

// Action is what an operator has asked for at a terminal.
type Action struct {
	Kind Kind
	// Terminal is the path of its device.
	Terminal string
	// Done must be called when a Shell has ended: until then the console leaves the terminal alone.
	Done func()
}

// Config is what Run needs.
type Config struct {
	Terminals []Terminal
	// View is what init knows now. It is called often, by several goroutines, and must not wait.
	View func() View
	// Node asks the running node; nil shows the Node that View has. Run runs it.
	Node *Collector
	// Logs are the last lines of a program's log, at most that many; nil for none.
	Logs func(program string, lines int) []string
	// Shell allows a shell.
	Shell bool
	// Actions gets what operators ask for.
	Actions chan<- Action
	Log     zerolog.Logger

	// every and idle are drawEvery and idleAfter, which tests make shorter.
	every, idle time.Duration
}

// Run shows the console on its terminals until ctx is done.
func Run(ctx context.Context, c Config) error {
	if c.View == nil || c.Actions == nil {
		return errors.New("cannot show the console: it needs a view and a channel of actions")
	}
	if c.every == 0 {
		c.every, c.idle = drawEvery, idleAfter
	}
	var all sync.WaitGroup
	defer all.Wait()
	if c.Node != nil {
		all.Go(func() { supervise.Do(c.Log, "the console's collector", func() { _ = c.Node.Run(ctx) }) })
	}
	for _, t := range c.Terminals {
		all.Go(func() {
			_ = supervise.Keep(ctx, c.Log, "the console at "+t.Path, supervise.DefaultBackoff(), func(ctx context.Context) error {
				return c.serve(ctx, t)
			})
		})
	}
	return nil
}

// serve has a terminal until ctx is done, or the terminal fails; a terminal that isn't there is given up.
func (c Config) serve(ctx context.Context, t Terminal) error {
	for ctx.Err() == nil {
		d, err := openDevice(t.Path)
		if errors.Is(err, errNone) {
			c.Log.Warn().Err(err).Str("terminal", t.Path).Msg("no console there")
			return supervise.ErrEnded
		}
		if err != nil {
			return err
		}
		shell, err := c.attend(ctx, t, d)
		if err != nil {
			return err
		}
		if shell && !c.lend(ctx, t) {
			return nil
		}
	}
	return nil
}

// lend gives the terminal to a shell, and waits for its end; false when ctx is done.
func (c Config) lend(ctx context.Context, t Terminal) bool {
	ended := make(chan struct{})
	var once sync.Once
	if !c.act(ctx, Action{Kind: Shell, Terminal: t.Path, Done: func() { once.Do(func() { close(ended) }) }}) {
		return false
	}
	select {
	case <-ended:
		return true
	case <-ctx.Done():
		return false
	}
}

func (c Config) act(ctx context.Context, a Action) bool {
	select {
	case c.Actions <- a:
		return true
	case <-ctx.Done():
		return false
	}
}

// view is what is shown now.
func (c Config) view() View {
	v := c.View()
	if c.Node != nil {
		v.Node = c.Node.Node()
	}
	return v
}

func (c Config) offer(v View) offer {
	o := offer{shell: c.Shell}
	for _, s := range v.Services {
		o.programs = append(o.programs, s.Name)
	}
	slices.Sort(o.programs)
	return o
}

func (c Config) logs(m menu) []string {
	if m.mode != reading || c.Logs == nil {
		return nil
	}
	return c.Logs(m.program, logLines)
}
