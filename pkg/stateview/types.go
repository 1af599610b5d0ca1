// Package stateview shows a COSI state to people and programs: which types there are, by which names they
// are known, a resource as one document, and its cells in a table. It knows no type but the registry's.
package stateview

import (
	"context"
	"slices"
	"strings"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/pkg/errors"
)

// Type is a type of resource, as the registry defines it.
type Type struct {
	// Name is its full name, such as Workloads.croft; Display that of one resource, such as Workload.
	Name    string `json:"type"`
	Display string `json:"display_type"`
	// Namespace is where its resources are, unless a reader names another.
	Namespace string `json:"namespace"`
	// Aliases are its other names, in lower case.
	Aliases   []string `json:"aliases"`
	Columns   []Column `json:"columns"`
	Sensitive bool     `json:"sensitive"`
}

// Types are those of a state, by name.
type Types []Type

// ReadTypes reads a state's registry.
func ReadTypes(ctx context.Context, st state.CoreState) (Types, error) {
	list, err := st.List(ctx, resource.NewMetadata(meta.NamespaceName, meta.ResourceDefinitionType, "", resource.VersionUndefined))
	if err != nil {
		return nil, err
	}
	out := Types{}
	for _, r := range list.Items {
		d, ok := r.(*meta.ResourceDefinition)
		if !ok {
			return nil, errors.Errorf("cannot read the registry: %s is a %T", r.Metadata().ID(), r)
		}
		out = append(out, typeOf(d.TypedSpec()))
	}
	slices.SortFunc(out, func(a, b Type) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

func typeOf(spec *meta.ResourceDefinitionSpec) Type {
	t := Type{
		Name: spec.Type, Display: spec.DisplayType, Namespace: spec.DefaultNamespace, Sensitive: spec.Sensitivity == meta.Sensitive,
		Aliases: []string{}, Columns: []Column{},
	}
	for _, alias := range spec.AllAliases {
		if !slices.Contains(t.Aliases, alias) {
			t.Aliases = append(t.Aliases, alias)
		}
	}
	slices.Sort(t.Aliases)
	for _, c := range spec.PrintColumns {
		t.Columns = append(t.Columns, NewColumn(c.Name, c.JSONPath))
	}
	return t
}

// names are all by which the type is found, in lower case.
func (t Type) names() []string {
	return append([]string{strings.ToLower(t.Name), strings.ToLower(t.Display)}, t.Aliases...)
}

// Find is the type of that name or alias; letters' case doesn't matter. The error lists the types that it may be.
func (ts Types) Find(name string) (Type, error) {
	wanted := strings.ToLower(name)
	var found, near []Type
	for _, t := range ts {
		names := t.names()
		switch {
		case names[0] == wanted:
			return t, nil
		case slices.Contains(names, wanted):
			found = append(found, t)
		case slices.ContainsFunc(names, func(n string) bool { return alike(n, wanted) }):
			near = append(near, t)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return Type{}, errors.Errorf("cannot tell which type %q is: it may be %s; give the full name", name, listed(found))
	case len(near) > 0:
		return Type{}, errors.Errorf("cannot find type %q: did you mean %s?", name, listed(near))
	}
	return Type{}, errors.Errorf("cannot find type %q: it must be one of %s", name, listed(ts))
}

// listed are types' full names.
func listed(ts []Type) string {
	var out []string
	for _, t := range ts {
		out = append(out, t.Name)
	}
	return strings.Join(out, ", ")
}

// alike is whether a mistyped name may be meant for another one.
func alike(name, typed string) bool {
	if len(typed) >= 3 && (strings.HasPrefix(name, typed) || strings.HasPrefix(typed, name) && len(name) >= 3) {
		return true
	}
	most := 1
	if len(typed) > 4 {
		most = 2
	}
	return len(typed) > 2 && distance(name, typed, most) <= most
}

// distance is the number of letters to add, remove or change between two names; above most it is only known to be above.
func distance(a, b string, most int) int {
	if len(a)-len(b) > most || len(b)-len(a) > most {
		return most + 1
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := last
			if a[i] != b[j] {
				cost = 1 + min(last, row[j], row[j+1])
			}
			last, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
