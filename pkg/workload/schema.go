package workload

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/pkg/errors"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/croft-edge/croft/pkg/clip"
	"github.com/croft-edge/croft/pkg/fielderror"
)

//go:embed schema/*.json
var schemaFiles embed.FS

// schemas holds the compiled schema of each type. It is compiled once, at
// first use, and never changes.
var schemas = sync.OnceValues(compileSchemas)

// Schema is the JSON Schema of a type's data, as published under docs/schema/.
func Schema(t Type) ([]byte, error) {
	if !t.Known() {
		return nil, fielderror.New("type", string(t), "%s", oneOf(Types()))
	}
	return schemaFiles.ReadFile("schema/" + string(t) + ".json")
}

func compileSchemas() (map[Type]*jsonschema.Schema, error) {
	c := jsonschema.NewCompiler()
	c.RegisterFormat(&jsonschema.Format{Name: "ip", Validate: validateIP})
	c.AssertFormat()
	out := map[Type]*jsonschema.Schema{}
	for _, t := range Types() {
		file, err := Schema(t)
		if err != nil {
			return nil, err
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(file))
		if err != nil {
			return nil, errors.Wrapf(err, "cannot read schema of %s", t)
		}
		url := "urn:croft:schema:" + string(t)
		if err := c.AddResource(url, doc); err != nil {
			return nil, errors.Wrapf(err, "cannot add schema of %s", t)
		}
		if out[t], err = c.Compile(url); err != nil {
			return nil, errors.Wrapf(err, "cannot compile schema of %s", t)
		}
	}
	return out, nil
}

// validateIP is the schemas' format "ip": IPv4 or IPv6, without a zone.
func validateIP(v any) error {
	text, ok := v.(string)
	if !ok {
		return nil
	}
	a, err := netip.ParseAddr(text)
	if err == nil && a.Zone() != "" {
		err = errors.New("it has a zone")
	}
	return err
}

// validData returns the canonical form of the reservation's data if its type's
// schema accepts it.
func validData(r *Reservation) ([]byte, error) {
	all, err := schemas()
	if err != nil {
		return nil, err
	}
	schema, ok := all[r.Type]
	if !ok {
		return nil, fielderror.New("type", string(r.Type), "%s", oneOf(Types()))
	}
	if len(r.Data) == 0 {
		return nil, fielderror.New("data", fielderror.Missing, "%s", schema.Description)
	}
	canonical, err := Canonical(r.Data)
	if err != nil {
		return nil, err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(canonical))
	if err != nil {
		return nil, errors.Wrap(err, "cannot read data")
	}
	return canonical, explain(schema, value, schema.Validate(value))
}

// explain makes a FieldError of a schema's errors: of the first field in
// order of paths, for the library gives them in none.
func explain(schema *jsonschema.Schema, value any, err error) error {
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return err
	}
	var out []*FieldError
	for _, leaf := range leaves(invalid) {
		out = append(out, explainLeaf(schema, value, leaf))
	}
	return slices.MinFunc(out, func(a, b *FieldError) int { return cmp.Compare(a.Field, b.Field) })
}

func leaves(e *jsonschema.ValidationError) []*jsonschema.ValidationError {
	if _, ok := e.ErrorKind.(*kind.PropertyNames); ok || len(e.Causes) == 0 {
		return []*jsonschema.ValidationError{e}
	}
	var out []*jsonschema.ValidationError
	for _, c := range e.Causes {
		out = append(out, leaves(c)...)
	}
	return out
}

func explainLeaf(schema *jsonschema.Schema, value any, leaf *jsonschema.ValidationError) *FieldError {
	path := "data"
	if k, ok := leaf.ErrorKind.(*kind.PropertyNames); ok {
		return explainName(path, schema, leaf.SchemaURL, k.Property)
	}
	for _, name := range leaf.InstanceLocation {
		path, schema, value = descend(path, schema, value, name)
	}
	out := &FieldError{Field: path, Value: fielderror.Show(path, value), Allowed: schema.Description}
	switch k := leaf.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		out.Field, out.Value = fielderror.Join(path, slices.Min(k.Properties)), string(fielderror.Unknown)
		out.Allowed = oneOf(slices.Sorted(maps.Keys(schema.Properties)))
	case *kind.Required:
		name := slices.Min(k.Missing)
		out.Field, out.Value, out.Allowed = fielderror.Join(path, name), string(fielderror.Missing), schema.Properties[name].Description
	}
	out.Field = clip.Text(out.Field, fielderror.MaxShown)
	return out
}

// explainName is explainLeaf for a name that isn't allowed. The library reports
// only its place in the schema, not in the data.
func explainName(path string, schema *jsonschema.Schema, url, name string) *FieldError {
	_, pointer, _ := strings.Cut(url, "#")
	for step := range strings.SplitSeq(pointer, "/") {
		if below, ok := schema.Properties[step]; ok {
			path, schema = fielderror.Join(path, step), below
		}
	}
	out := &FieldError{Field: clip.Text(fielderror.Join(path, name), fielderror.MaxShown), Value: strconv.Quote(clip.Text(name, fielderror.MaxShown)), Allowed: "a name that the schema allows"}
	if schema.PropertyNames != nil {
		out.Allowed = schema.PropertyNames.Description
	}
	return out
}

// descend goes to the member or item of that name.
func descend(path string, schema *jsonschema.Schema, value any, name string) (string, *jsonschema.Schema, any) {
	if list, ok := value.([]any); ok {
		i, err := strconv.Atoi(name)
		if items, known := schema.Items2020, err == nil && i < len(list); known && items != nil {
			return fielderror.Index(path, i), items, list[i]
		}
		return path, schema, value
	}
	below, ok := schema.Properties[name]
	if !ok {
		if below, ok = schema.AdditionalProperties.(*jsonschema.Schema); !ok {
			return path, schema, value
		}
	}
	if members, ok := value.(map[string]any); ok {
		value = members[name]
	}
	return fielderror.Join(path, name), below, value
}

// oneOf lists the allowed values.
func oneOf[S ~string](names []S) string {
	if len(names) == 1 {
		return string(names[0])
	}
	text := make([]string, len(names))
	for i, n := range names {
		text[i] = string(n)
	}
	last := len(text) - 1
	return fmt.Sprintf("one of %s or %s", strings.Join(text[:last], ", "), text[last])
}
