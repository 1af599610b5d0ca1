package get

import (
	"context"
	"fmt"
	"strings"

	"github.com/cosi-project/runtime/pkg/state"
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/cmd/croft/internal/render"
	"github.com/croft-edge/croft/pkg/statesocket"
	"github.com/croft-edge/croft/pkg/stateview"
)

// The changes that a watch tells.
const (
	created   = "created"
	updated   = "updated"
	destroyed = "destroyed"
)

// change is one that has happened to a resource. JSON and YAML show it as a document.
type change struct {
	Event string `json:"event"`
	stateview.Document
}

// plain is an error of the node in words for people.
func plain(what string, err error) error { return errors.New(what + ": " + statesocket.Plain(err)) }

// follow calls each with the changes since before the watch, then present, then each with those that follow, until
// one of the two wants no more, or the stream ends, which is an error.
func (g Getter) follow(ctx context.Context, t stateview.Type, r Request, each func(change) (more bool, err error), present func() (more bool, err error)) error {
	// The node doesn't learn the deadline: by its clock it would end the stream a moment before this process knows why.
	streaming, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	events := make(chan state.Event)
	if err := g.open(streaming, t, r, events); err != nil {
		return plain("cannot watch "+t.Name, err)
	}
	for first := true; ; first = false {
		var e state.Event
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e = <-events:
		}
		if e.Type == state.Errored {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return plain(fmt.Sprintf("cannot watch %s any longer", t.Name), e.Error)
		}
		if more, err := g.handle(e, first && r.ID != "", each, present); err != nil || !more {
			return err
		}
	}
}

// open opens the watch. That of one resource begins with its state, that of all with theirs and a mark behind them.
func (g Getter) open(ctx context.Context, t stateview.Type, r Request, events chan state.Event) error {
	ctx, raw := statesocket.WithJSON(ctx), state.WithSkipProtobufUnmarshal()
	if r.ID != "" {
		return g.State.Watch(ctx, r.pointer(t), events, state.WithWatchUnmarshalOptions(raw))
	}
	return g.State.WatchKind(ctx, r.pointer(t), events, state.WithBootstrapContents(true),
		state.WatchWithLabelQuery(r.Labels.query()...), state.WithWatchKindUnmarshalOptions(raw))
}

// handle passes an event on; alone is whether it is the first and only one of what is present.
func (g Getter) handle(e state.Event, alone bool, each func(change) (bool, error), present func() (bool, error)) (bool, error) {
	name := map[state.EventType]string{state.Created: created, state.Updated: updated, state.Destroyed: destroyed}[e.Type]
	switch {
	case e.Type == state.Bootstrapped || alone && e.Type == state.Destroyed:
		return present()
	case name == "":
		return true, nil
	}
	d, err := stateview.NewDocument(e.Resource)
	if err != nil {
		return false, err
	}
	more, err := each(change{Event: name, Document: d})
	if err != nil || !more || !alone {
		return more, err
	}
	return present()
}

// watch writes the present resources and then each change, until it is interrupted.
func (g Getter) watch(ctx context.Context, t stateview.Type, r Request) error {
	lines := &lines{getter: g, head: append([]string{"EVENT"}, head(t)...)}
	err := g.follow(ctx, t, r, func(c change) (bool, error) {
		return true, lines.add(c, append([]string{c.Event}, row(t, c.Document)...))
	}, func() (bool, error) { return true, lines.begin() })
	if ctx.Err() != nil {
		return nil // the user has seen enough
	}
	return err
}

// lines writes changes one by one, and those that were there before together, so that their columns fit.
type lines struct {
	getter Getter
	head   []string
	begun  bool
	// waiting are rows of what is present, until all are known. widths are those of the first rows.
	waiting [][]string
	widths  []int
	written bool
}

func (l *lines) add(c change, row []string) error {
	switch l.getter.Format {
	case render.JSON:
		return render.JSONLine(l.getter.Out, c)
	case render.YAML:
		if l.written {
			if _, err := fmt.Fprintln(l.getter.Out, "---"); err != nil {
				return errors.Wrap(err, "cannot write YAML")
			}
		}
		l.written = true
		return render.Write(l.getter.Out, render.YAML, c, render.Rows{})
	}
	if !l.begun {
		l.waiting = append(l.waiting, row)
		return nil
	}
	return l.write(row)
}

// begin writes the head and what is present.
func (l *lines) begin() error {
	if l.begun || l.getter.Format != render.Table {
		return nil
	}
	l.begun = true
	all := append([][]string{l.head}, l.waiting...)
	l.waiting, l.widths = nil, make([]int, len(l.head))
	for _, row := range all {
		for i, c := range row {
			l.widths[i] = max(l.widths[i], len([]rune(render.Line(c))))
		}
	}
	return l.write(all...)
}

// write writes rows at once, so that each line is whole in a pipe.
func (l *lines) write(rows ...[]string) error {
	var out strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, c := range row {
			fmt.Fprintf(&line, "%-*s  ", l.widths[i], render.Line(c))
		}
		out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := fmt.Fprint(l.getter.Out, out.String())
	return errors.Wrap(err, "cannot write table")
}
