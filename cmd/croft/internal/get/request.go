// Package get reads a node's state for `croft get`: lists, watches, and waits for conditions. It knows types,
// their names and columns from the node's registry alone.
package get

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/cmd/croft/internal/render"
	"github.com/croft-edge/croft/pkg/statesocket"
	"github.com/croft-edge/croft/pkg/stateview"
)

// Getter reads a state and writes what it reads.
type Getter struct {
	State  state.State
	Out    io.Writer
	Format render.Format
}

// Request is what is read.
type Request struct {
	// ID is one resource; empty are all of the type.
	ID string
	// Namespace replaces the type's own.
	Namespace string
	Labels    Labels
	Watch     bool
	// WaitFor is waited for, for at most Timeout; nil waits for nothing.
	WaitFor *Wanted
	Timeout time.Duration
}

// Labels are names and values that a resource must have.
type Labels map[string]string

// ParseLabels reads a list of NAME=VALUE.
func ParseLabels(all []string) (Labels, error) {
	out := Labels{}
	for _, one := range all {
		name, value, ok := strings.Cut(one, "=")
		if !ok || name == "" {
			return nil, errors.Errorf("cannot read label %q: it must be NAME=VALUE", one)
		}
		out[name] = value
	}
	return out, nil
}

// query is the library's form.
func (l Labels) query() (out []resource.LabelQueryOption) {
	for name, value := range l {
		out = append(out, resource.LabelEqual(name, value))
	}
	return out
}

// Wanted is a condition with the status that is waited for.
type Wanted struct{ Type, Status string }

func (w Wanted) String() string { return w.Type + "=" + w.Status }

// ParseWanted reads CONDITION or CONDITION=STATUS; the status is True when none is given.
func ParseWanted(text string) (*Wanted, error) {
	name, status, given := strings.Cut(text, "=")
	if !given {
		status = "True"
	}
	for _, known := range []string{"True", "False", "Unknown"} {
		if strings.EqualFold(known, status) && name != "" {
			return &Wanted{Type: name, Status: known}, nil
		}
	}
	return nil, errors.Errorf("cannot wait for %q: it must be CONDITION or CONDITION=STATUS, such as Provisioned=False; a status is True, False or Unknown", text)
}

// Types reads the node's types.
func (g Getter) Types(ctx context.Context) (stateview.Types, error) {
	types, err := stateview.ReadTypes(ctx, g.State)
	if err != nil {
		return nil, plain("cannot read the node's types", err)
	}
	return types, nil
}

// ShowTypes writes the node's types.
func (g Getter) ShowTypes(types stateview.Types) error {
	rows := render.Rows{Head: []string{"TYPE", "ALIASES", "NAMESPACE"}}
	for _, t := range types {
		rows.Rows = append(rows.Rows, []string{t.Name, strings.Join(t.Aliases, ", "), t.Namespace})
	}
	return render.Write(g.Out, g.Format, types, rows)
}

// Run reads resources of a type as the request says.
func (g Getter) Run(ctx context.Context, t stateview.Type, r Request) error {
	if r.Namespace == "" {
		r.Namespace = t.Namespace
	}
	switch {
	case r.Watch:
		return g.watch(ctx, t, r)
	case r.WaitFor != nil:
		docs, err := g.wait(ctx, t, r)
		if err != nil {
			return err
		}
		return g.show(t, r, docs)
	}
	docs, err := g.read(ctx, t, r)
	if err != nil {
		return err
	}
	return g.show(t, r, docs)
}

// pointer is the resource that the request names; of a list its kind.
func (r Request) pointer(t stateview.Type) resource.Metadata {
	return resource.NewMetadata(r.Namespace, t.Name, r.ID, resource.VersionUndefined)
}

func (g Getter) read(ctx context.Context, t stateview.Type, r Request) ([]stateview.Document, error) {
	ctx = statesocket.WithJSON(ctx)
	var all []resource.Resource
	if r.ID != "" {
		one, err := g.State.Get(ctx, r.pointer(t), state.WithGetUnmarshalOptions(state.WithSkipProtobufUnmarshal()))
		if state.IsNotFoundError(err) {
			return nil, errors.Errorf("cannot find %s %s in namespace %s", t.Display, r.ID, r.Namespace)
		}
		if err != nil {
			return nil, plain("cannot read "+t.Name, err)
		}
		all = append(all, one)
	} else {
		list, err := g.State.List(ctx, r.pointer(t), state.WithLabelQuery(r.Labels.query()...), state.WithListUnmarshalOptions(state.WithSkipProtobufUnmarshal()))
		if err != nil {
			return nil, plain("cannot read "+t.Name, err)
		}
		all = list.Items
	}
	docs := []stateview.Document{}
	for _, one := range all {
		d, err := stateview.NewDocument(one)
		if err != nil {
			return nil, err
		}
		docs = append(docs, d)
	}
	return docs, nil
}

// show writes resources: one as an object, all as a list.
func (g Getter) show(t stateview.Type, r Request, docs []stateview.Document) error {
	rows := render.Rows{Head: head(t)}
	if g.Format != render.JSON && g.Format != render.YAML {
		for _, d := range docs {
			rows.Rows = append(rows.Rows, row(t, d))
		}
	}
	if r.ID != "" && len(docs) == 1 {
		return render.Write(g.Out, g.Format, docs[0], rows)
	}
	return render.Write(g.Out, g.Format, docs, rows)
}

// head is that of a type's table.
func head(t stateview.Type) []string {
	out := []string{"NAMESPACE", "TYPE", "ID", "VERSION"}
	for _, c := range t.Columns {
		out = append(out, strings.ToUpper(c.Name))
	}
	return out
}

func row(t stateview.Type, d stateview.Document) []string {
	out := []string{d.Metadata.Namespace, t.Display, d.Metadata.ID, d.Metadata.Version}
	spec := d.Values()
	for _, c := range t.Columns {
		out = append(out, c.Cell(spec))
	}
	return out
}
