package workload_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/workload"
)

// The published schemas are the checked ones.
func TestPublishedSchemas(t *testing.T) {
	const published = "../../docs/schema"
	for _, kind := range workload.Types() {
		embedded, err := workload.Schema(kind)
		if err != nil {
			t.Fatal(err)
		}
		file, err := os.ReadFile(filepath.Join(published, string(kind)+".json"))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(embedded, file) {
			t.Errorf("%s/%s.json isn't pkg/workload/schema/%s.json", published, kind, kind)
		}
	}
	files, err := filepath.Glob(published + "/*.json")
	files = slices.DeleteFunc(files, func(path string) bool { return filepath.Base(path) == "croftd.json" }) // of settings
	if err != nil || len(files) != len(workload.Types()) {
		t.Errorf("%d schemas are published, %v", len(files), err)
	}
	_, err = workload.Schema("vm")
	wantError(t, "unknown type", err, "cannot accept type", "container")
}

// schemaNode is the part of a schema that these tests look at.
type schemaNode struct {
	Description   string
	Type          any
	Enum          []any
	Properties    map[string]*schemaNode
	Items         *schemaNode
	PropertyNames *schemaNode
	Additional    json.RawMessage `json:"additionalProperties"`
	Maximum       *float64
	MaxLength     *int
	MaxItems      *int
	MaxProperties *int
	Pattern       string
}

func readSchema(t *testing.T, kind workload.Type) *schemaNode {
	t.Helper()
	file, err := workload.Schema(kind)
	if err != nil {
		t.Fatal(err)
	}
	var out schemaNode
	if err := json.Unmarshal(file, &out); err != nil {
		t.Fatal(err)
	}
	return &out
}

// Every value has a bound, and a description, which errors quote as the allowed values.
func TestSchemaBoundsAndDescriptions(t *testing.T) {
	for _, kind := range workload.Types() {
		visit(t, string(kind), readSchema(t, kind), func(path string, n *schemaNode) {
			if n.Description == "" {
				t.Errorf("%s has no description", path)
			}
			types, _ := json.Marshal(n.Type)
			bounded := map[string]bool{
				"string": n.MaxLength != nil, "integer": n.Maximum != nil && *n.Maximum <= workload.MaxInteger, "array": n.MaxItems != nil,
				"object": n.MaxProperties != nil || string(n.Additional) == "false", "boolean": true,
			}
			for name, ok := range bounded {
				if strings.Contains(string(types), `"`+name+`"`) && !ok {
					t.Errorf("%s has no bound", path)
				}
			}
			if n.Type == nil && n.Enum == nil {
				t.Errorf("%s has no type", path)
			}
		})
	}
}

func visit(t *testing.T, path string, n *schemaNode, see func(string, *schemaNode)) {
	t.Helper()
	see(path, n)
	for name, p := range n.Properties {
		visit(t, path+"."+name, p, see)
	}
	if n.Items != nil {
		visit(t, path+"[]", n.Items, see)
	}
	if len(n.Additional) > 0 && n.Additional[0] == '{' {
		var below schemaNode
		if err := json.Unmarshal(n.Additional, &below); err != nil {
			t.Fatal(err)
		}
		visit(t, path+".*", &below, see)
	}
}

// The Go types and the schemas have the same members.
func TestSchemasHaveTheTypesMembers(t *testing.T) {
	for kind, data := range map[workload.Type]any{
		workload.TypeContainer: workload.Container{}, workload.TypeVolume: workload.Volume{}, workload.TypeNetwork: workload.Network{},
		workload.TypeZDB: workload.ZDB{}, workload.TypeDebug: workload.Debug{}, workload.TypeKubernetes: workload.Kubernetes{},
	} {
		sameMembers(t, string(kind), reflect.TypeOf(data), readSchema(t, kind))
	}
}

func sameMembers(t *testing.T, path string, typ reflect.Type, n *schemaNode) {
	t.Helper()
	switch {
	case typ.Kind() == reflect.Slice && n.Items != nil:
		sameMembers(t, path+"[]", typ.Elem(), n.Items)
		return
	case typ.Kind() != reflect.Struct:
		if n.Properties != nil {
			t.Errorf("%s is %v", path, typ)
		}
		return
	}
	var names []string
	for _, f := range reflect.VisibleFields(typ) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		names = append(names, name)
		if below := n.Properties[name]; below != nil {
			sameMembers(t, path+"."+name, f.Type, below)
		}
	}
	var known []string
	for name := range n.Properties {
		known = append(known, name)
	}
	slices.Sort(names)
	slices.Sort(known)
	if !slices.Equal(names, known) {
		t.Errorf("%s has the members %v, its schema %v", path, names, known)
	}
}
