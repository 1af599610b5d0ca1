package config

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"

	"github.com/pkg/errors"
)

// SchemaID identifies the schema of the configuration file.
const SchemaID = "urn:croft:schema:croftd"

// Schema is the JSON Schema (draft 2020-12) of the configuration file, made from the table of settings. It accepts
// each file that Load accepts, and refuses what a schema can tell.
func Schema(settings []Setting) ([]byte, error) {
	properties := make(ordered, 0, len(settings))
	for _, s := range settings {
		properties = append(properties, member{s.Name, s.schema()})
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(ordered{
		{"$schema", "https://json-schema.org/draft/2020-12/schema"},
		{"$id", SchemaID},
		{"title", "croftd's configuration file"},
		{"description", "the operator's settings of a node, /etc/croft/croftd.yaml"},
		{"type", []string{"object", "null"}},
		{"additionalProperties", false},
		{"properties", properties},
	})
	return out.Bytes(), errors.Wrap(err, "cannot write the schema of settings")
}

// schema is the schema of a setting's value.
func (s Setting) schema() ordered {
	out := ordered{{"title", s.Group}, {"description", s.Help + " (" + string(s.Kind) + "); read by " + strings.Join(s.ReadBy, ", ")}}
	// A default with names of other settings isn't a value.
	if s.Default != "" && !strings.Contains(s.Default, "{") {
		out = append(out, member{"default", s.defaultValue()})
	}
	return append(out, s.form()...)
}

// defaultValue is the default as people write it in YAML.
func (s Setting) defaultValue() any {
	switch {
	case s.Kind == Switch:
		return s.Default == "true"
	case s.Kind == Number, s.Kind == Size && strings.Trim(s.Default, "0123456789") == "":
		return json.Number(s.Default)
	case s.Kind == List:
		return Split(s.Default)
	}
	return s.Default
}

// form are the members that say which values are allowed.
func (s Setting) form() ordered {
	a := s.Set.Allowed
	switch {
	case s.Kind == Switch:
		return ordered{{"enum", []any{true, false, "true", "false"}}}
	case len(a.Enum) > 0:
		return ordered{{"enum", a.Enum}}
	case s.Kind == List:
		return s.list()
	}
	types := s.types("string")
	if s.Kind == Number || s.Kind == Size {
		types = []string{"string", "integer"}
	}
	out := ordered{{"type", types}}
	pattern := a.Pattern
	if s.Kind == Number {
		pattern = `[0-9]+`
	}
	if s.Kind == Number || s.Kind == Size {
		out = append(out, member{"minimum", a.Min})
		if a.Max > 0 && a.Max != math.MaxInt64 {
			out = append(out, member{"maximum", a.Max})
		}
	}
	if s.Kind == Duration {
		pattern = durationForm
	}
	if pattern != "" {
		out = append(out, member{"pattern", "^(?:" + pattern + ")$"})
	}
	return out
}

// list is the form of a list: a sequence, or a text with commas.
func (s Setting) list() ordered {
	item := ordered{{"type", []string{"string", "number", "boolean", "null"}}}
	if p := s.Set.Allowed.Pattern; p != "" {
		item = ordered{{"type", []string{"string", "null"}}, {"pattern", `^\s*(?:` + p + `)?\s*$`}}
	}
	item = append(item, member{"not", ordered{{"type", "string"}, {"pattern", ","}}})
	return ordered{{"type", s.types("array", "string")}, {"items", item}}
}

// types adds those types of values whose texts the setting accepts: YAML takes 7700 for a number.
func (s Setting) types(types ...string) []string {
	for _, each := range []struct{ name, text string }{{"integer", "7700"}, {"number", "7.5"}, {"boolean", "true"}, {"null", ""}} {
		if s.accepts(each.text) {
			types = append(types, each.name)
		}
	}
	return types
}

// accepts reports whether the setting's own check accepts a text.
func (s Setting) accepts(text string) bool {
	var c Config
	return s.Set.Parse(&c, text) == nil
}

// ordered is a JSON object whose members keep their order.
type ordered []member

type member struct {
	name  string
	value any
}

// MarshalJSON implements json.Marshaler.
func (o ordered) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			out.WriteByte(',')
		}
		for j, v := range []any{m.name, m.value} {
			if j > 0 {
				out.WriteByte(':')
			}
			enc := json.NewEncoder(&out)
			enc.SetEscapeHTML(false)
			if err := enc.Encode(v); err != nil {
				return nil, err
			}
		}
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}
