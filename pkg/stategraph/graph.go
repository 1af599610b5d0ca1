// Package stategraph turns the dependencies of controllers into a form for documents, and into Graphviz' language.
// Both are the same for the same controllers, in whatever order the library lists their edges.
package stategraph

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/cosi-project/runtime/pkg/controller"
)

// Graph is what controllers read and write.
type Graph struct {
	Edges []Edge `json:"edges"`
}

// Edge is one input or output of a controller.
type Edge struct {
	Controller string `json:"controller"`
	Kind       Kind   `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Type       string `json:"type"`
	// ID is empty for all resources of the type.
	ID string `json:"id,omitempty"`
}

// Kind is an edge's.
type Kind string

// The kinds. A strong input holds its resource by a finalizer. An exclusive output has one controller. A destroy-ready
// input wakes its controller for resources that may be destroyed; queue controllers have primary and mapped inputs.
const (
	InputStrong             Kind = "input-strong"
	InputWeak               Kind = "input-weak"
	InputDestroyReady       Kind = "input-destroy-ready"
	InputPrimary            Kind = "input-primary"
	InputMapped             Kind = "input-mapped"
	InputMappedDestroyReady Kind = "input-mapped-destroy-ready"
	OutputExclusive         Kind = "output-exclusive"
	OutputShared            Kind = "output-shared"
)

// kindOf is the kind of a library's edge.
func kindOf(t controller.DependencyEdgeType) Kind {
	switch t {
	case controller.EdgeOutputExclusive:
		return OutputExclusive
	case controller.EdgeOutputShared:
		return OutputShared
	case controller.EdgeInputStrong:
		return InputStrong
	case controller.EdgeInputWeak:
		return InputWeak
	case controller.EdgeInputDestroyReady:
		return InputDestroyReady
	case controller.EdgeInputQPrimary:
		return InputPrimary
	case controller.EdgeInputQMapped:
		return InputMapped
	case controller.EdgeInputQMappedDestroyReady:
		return InputMappedDestroyReady
	}
	return Kind(fmt.Sprintf("unknown-%d", t))
}

// New makes the graph of the library's, sorted; nil has no edges.
func New(g *controller.DependencyGraph) Graph {
	out := Graph{Edges: []Edge{}}
	if g == nil {
		return out
	}
	for _, e := range g.Edges {
		out.Edges = append(out.Edges, Edge{
			Controller: e.ControllerName, Kind: kindOf(e.EdgeType), Namespace: e.ResourceNamespace, Type: e.ResourceType, ID: e.ResourceID,
		})
	}
	slices.SortFunc(out.Edges, compare)
	out.Edges = slices.Compact(out.Edges)
	return out
}

func compare(a, b Edge) int {
	return cmp.Or(strings.Compare(a.Controller, b.Controller), strings.Compare(a.Type, b.Type), strings.Compare(a.Namespace, b.Namespace),
		strings.Compare(a.ID, b.ID), strings.Compare(string(a.Kind), string(b.Kind)))
}

// DOT is the graph in Graphviz' language. Controllers are boxes, types of resources ellipses. An arrow to a
// controller is an input: a full line for a strong one and a queue's primary one, a broken line for others. An
// arrow from a controller is an output: thick for an exclusive one, thin with a hollow head for a shared one.
func (g Graph) DOT() string {
	edges := slices.SortedFunc(slices.Values(g.Edges), compare)
	var controllers, types []string
	for _, e := range edges {
		controllers, types = append(controllers, e.Controller), append(types, e.Type)
	}
	var out strings.Builder
	out.WriteString("digraph controllers {\n  rankdir=LR;\n  node [fontname=\"sans-serif\", fontsize=11];\n  edge [fontname=\"sans-serif\", fontsize=9];\n")
	for _, name := range unique(controllers) {
		fmt.Fprintf(&out, "  %s [label=%s, shape=box, style=filled, fillcolor=\"#dce6f2\"];\n", quote("controller "+name), quote(name))
	}
	for _, name := range unique(types) {
		short, _, _ := strings.Cut(name, ".")
		fmt.Fprintf(&out, "  %s [label=%s, shape=ellipse];\n", quote("type "+name), quote(short))
	}
	for _, e := range edges {
		from, to := "type "+e.Type, "controller "+e.Controller
		if e.Kind == OutputExclusive || e.Kind == OutputShared {
			from, to = to, from
		}
		fmt.Fprintf(&out, "  %s -> %s [%s];\n", quote(from), quote(to), e.attributes())
	}
	out.WriteString("}\n")
	return out.String()
}

func unique(names []string) []string { return slices.Compact(slices.Sorted(slices.Values(names))) }

// attributes are how an edge is drawn.
func (e Edge) attributes() string {
	style := map[Kind]string{
		InputStrong: "style=solid", InputPrimary: "style=solid, color=\"#1f5fa8\"", InputWeak: "style=dashed",
		InputMapped: "style=dashed, color=\"#1f5fa8\"", InputDestroyReady: "style=dotted", InputMappedDestroyReady: "style=dotted, color=\"#1f5fa8\"",
		OutputExclusive: "style=bold", OutputShared: "style=solid, arrowhead=empty",
	}[e.Kind]
	if style == "" {
		style = "style=dotted, color=red"
	}
	if e.ID != "" {
		style += ", label=" + quote(e.ID)
	}
	return style
}

// quote is a name as Graphviz reads it, without control characters.
func quote(s string) string {
	clean := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(clean) + `"`
}
