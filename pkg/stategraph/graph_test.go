package stategraph_test

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/cosi-project/runtime/pkg/controller"

	"github.com/croft-edge/croft/pkg/stategraph"
)

func library() *controller.DependencyGraph {
	edge := func(name string, t controller.DependencyEdgeType, ns, typ, id string) controller.DependencyEdge {
		return controller.DependencyEdge{ControllerName: name, EdgeType: t, ResourceNamespace: ns, ResourceType: typ, ResourceID: id}
	}
	return &controller.DependencyGraph{Edges: []controller.DependencyEdge{
		edge("Engine", controller.EdgeOutputExclusive, "", "Workloads.croft", ""),
		edge("Engine", controller.EdgeOutputShared, "", "Events.croft", ""),
		edge("Engine", controller.EdgeInputStrong, "orders", "Orders.croft", ""),
		edge("Engine", controller.EdgeInputWeak, "node", "Clocks.croft", "clock"),
		edge("Capacity", controller.EdgeInputQPrimary, "node", "Pools.croft", ""),
		edge("Capacity", controller.EdgeInputQMapped, "node", "Workloads.croft", ""),
		edge("Capacity", controller.EdgeInputDestroyReady, "node", "Images.croft", ""),
		edge("Capacity", controller.EdgeInputQMappedDestroyReady, "node", "Networks.croft", ""),
	}}
}

// TestDOT is golden: docs/graph.svg is made of it.
func TestDOT(t *testing.T) {
	want := `digraph controllers {
  rankdir=LR;
  node [fontname="sans-serif", fontsize=11];
  edge [fontname="sans-serif", fontsize=9];
  "controller Capacity" [label="Capacity", shape=box, style=filled, fillcolor="#dce6f2"];
  "controller Engine" [label="Engine", shape=box, style=filled, fillcolor="#dce6f2"];
  "type Clocks.croft" [label="Clocks", shape=ellipse];
  "type Events.croft" [label="Events", shape=ellipse];
  "type Images.croft" [label="Images", shape=ellipse];
  "type Networks.croft" [label="Networks", shape=ellipse];
  "type Orders.croft" [label="Orders", shape=ellipse];
  "type Pools.croft" [label="Pools", shape=ellipse];
  "type Workloads.croft" [label="Workloads", shape=ellipse];
  "type Images.croft" -> "controller Capacity" [style=dotted];
  "type Networks.croft" -> "controller Capacity" [style=dotted, color="#1f5fa8"];
  "type Pools.croft" -> "controller Capacity" [style=solid, color="#1f5fa8"];
  "type Workloads.croft" -> "controller Capacity" [style=dashed, color="#1f5fa8"];
  "type Clocks.croft" -> "controller Engine" [style=dashed, label="clock"];
  "controller Engine" -> "type Events.croft" [style=solid, arrowhead=empty];
  "type Orders.croft" -> "controller Engine" [style=solid];
  "controller Engine" -> "type Workloads.croft" [style=bold];
}
`
	if got := stategraph.New(library()).DOT(); got != want {
		t.Errorf("got\n%s", got)
	}
}

// TestTheOrderOfEdgesDoesNotMatter: the library keeps them in maps.
func TestTheOrderOfEdgesDoesNotMatter(t *testing.T) {
	want := stategraph.New(library())
	for range 50 {
		g := library()
		g.Edges = append(g.Edges, g.Edges[0])
		rand.Shuffle(len(g.Edges), func(i, j int) { g.Edges[i], g.Edges[j] = g.Edges[j], g.Edges[i] })
		if got := stategraph.New(g); !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v", got)
		}
	}
}

// TestItCrossesAsADocument: the drawing is the same on the other side of the debug socket.
func TestItCrossesAsADocument(t *testing.T) {
	g := stategraph.New(library())
	raw, err := json.Marshal(g)
	if err != nil {
		t.Fatal(err)
	}
	var back stategraph.Graph
	if err := json.Unmarshal(raw, &back); err != nil || back.DOT() != g.DOT() {
		t.Errorf("%v: %s", err, raw)
	}
	if raw, err := json.Marshal(stategraph.New(nil)); err != nil || string(raw) != `{"edges":[]}` {
		t.Errorf("an empty graph is %s, %v", raw, err)
	}
}

func TestNamesCannotBreakOut(t *testing.T) {
	g := stategraph.Graph{Edges: []stategraph.Edge{{Controller: "a\"]; evil [\\", Type: "T\x1b\n.x", Kind: "new-kind"}}}
	got := g.DOT()
	if strings.Contains(got, "\x1b") || !strings.Contains(got, `"controller a\"]; evil [\\"`) || !strings.Contains(got, "color=red") {
		t.Errorf("got %s", got)
	}
}
