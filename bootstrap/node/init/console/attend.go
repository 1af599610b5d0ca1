package console

import (
	"context"
	"os"
	"slices"
	"time"

	"github.com/croft-edge/croft/pkg/supervise"
)

// face is how a kind of terminal shows things.
type face interface {
	// show is what is to be written for what is to be seen now. asked tells that Enter was pressed.
	show(at scene, asked bool) []byte
	// bye is what is written last.
	bye() []byte
	// forget is called when the terminal may not show what was written.
	forget()
}

// scene is what is to be seen at a terminal.
type scene struct {
	view          View
	menu          menu
	offer         offer
	logs          []string
	width, height int
}

// attend shows the console at an open terminal until ctx is done, the terminal fails, or a shell is asked for; it closes the terminal.
func (c Config) attend(ctx context.Context, t Terminal, d *device) (shell bool, err error) {
	ctx, stop := context.WithCancel(ctx)
	keys := make(chan []key)
	read := make(chan struct{})
	defer func() { <-read }()
	defer d.close()
	defer stop()
	go func() {
		defer close(read)
		_ = supervise.Keep(ctx, c.Log, "the keys of "+t.Path, supervise.DefaultBackoff(), func(ctx context.Context) error { return d.keys(ctx, keys) })
	}()
	var f face = &vt{}
	if t.Lines {
		f = newLine()
	}
	defer func() { _ = d.write(f.bye()) }()
	return c.loop(ctx, t, d, f, keys)
}

func (c Config) loop(ctx context.Context, t Terminal, d *device, f face, keys <-chan []key) (shell bool, err error) {
	tick := time.NewTicker(c.every)
	defer tick.Stop()
	m, last, asked := menu{}, time.Now(), false
	for {
		v := c.view()
		o := c.offer(v)
		if d.seen() {
			w, h := d.size()
			if err := d.write(f.show(scene{v, m, o, c.logs(m), w, h}, asked)); err != nil {
				if ctx.Err() != nil {
					return false, nil
				}
				f.forget()
				c.Log.Debug().Err(err).Str("terminal", t.Path).Msg("the console couldn't be shown")
			}
		}
		asked = false
		select {
		case <-ctx.Done():
			return false, nil
		case <-tick.C:
			if time.Since(last) > c.idle {
				m = menu{}
			}
		case ks := <-keys:
			last, asked = time.Now(), slices.Contains(ks, enter)
			for _, k := range ks {
				var does Kind
				m, does = m.press(k, o)
				switch {
				case does == Shell:
					return true, nil
				case does != nothing && !c.act(ctx, Action{Kind: does, Terminal: t.Path, Done: func() {}}):
					return false, nil
				}
			}
		}
	}
}

// keys reads keys until the terminal is closed.
func (d *device) keys(ctx context.Context, out chan<- []key) error {
	in := make([]byte, 256)
	var rest []byte
	for {
		wait := time.Time{}
		if len(rest) > 0 {
			wait = time.Now().Add(sequenceIn)
		}
		if err := d.file.SetReadDeadline(wait); err != nil {
			return err
		}
		n, err := d.file.Read(in)
		var ks []key
		switch {
		case err == nil:
			ks, rest = decode(append(rest, in[:n]...))
		case os.IsTimeout(err):
			ks, rest = alone(rest), nil
		default:
			return err
		}
		if len(ks) == 0 {
			continue
		}
		select {
		case out <- ks:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// vt is a screen.
type vt struct {
	screen screen
	whole  time.Time
}

func (f *vt) show(at scene, _ bool) []byte {
	if time.Since(f.whole) > redrawEvery {
		f.screen.forget()
		f.whole = time.Now()
	}
	return f.screen.draw(at.menu.render(at.view, at.offer, at.logs, at.width, at.height), at.width, at.height)
}

func (f *vt) bye() []byte { return []byte(end) }

func (f *vt) forget() { f.screen.forget() }
