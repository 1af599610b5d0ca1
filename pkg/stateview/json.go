package stateview

import (
	"bytes"
	"encoding"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/croft-edge/croft/pkg/yamljson"
)

// JSON is what yamljson.ToJSON makes of a spec's YAML, without making the YAML: that takes about 15 times as long, and reading
// it as long again. It knows structs with names in yaml tags, pointers, lists, texts, numbers without fractions, truth values
// and times; a spec with anything else isn't ok, and needs the way by YAML.
func JSON(spec any) (text json.RawMessage, ok bool) {
	w := writer{ok: true}
	w.value(reflect.ValueOf(spec))
	return w.out.Bytes(), w.ok
}

// writer writes a spec; ok is false after something that it doesn't know.
type writer struct {
	out bytes.Buffer
	ok  bool
}

func (w *writer) value(v reflect.Value) {
	if at, is := timeOf(v); is {
		w.any(at)
		return
	}
	if !v.IsValid() || special(v.Type()) {
		w.ok = false
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			w.out.WriteString("null")
			return
		}
		w.value(v.Elem())
	case reflect.Struct:
		w.out.WriteByte('{')
		w.members(v, false)
		w.out.WriteByte('}')
	case reflect.Slice:
		w.list(v)
	case reflect.String:
		w.text(v.String())
	case reflect.Bool:
		w.out.WriteString(strconv.FormatBool(v.Bool()))
	case reflect.Int, reflect.Int32, reflect.Int64:
		w.out.Write(strconv.AppendInt(w.out.AvailableBuffer(), v.Int(), 10))
	case reflect.Uint16, reflect.Uint32, reflect.Uint64:
		w.out.Write(strconv.AppendUint(w.out.AvailableBuffer(), v.Uint(), 10))
	default:
		w.ok = false
	}
}

// timeOf is the time that v is, if it is one.
func timeOf(v reflect.Value) (time.Time, bool) {
	if !v.IsValid() || v.Type() != reflect.TypeFor[time.Time]() {
		return time.Time{}, false
	}
	at, is := v.Interface().(time.Time)
	return at, is
}

// special is whether YAML has a form of its own for the type.
func special(t reflect.Type) bool {
	if t == reflect.TypeFor[time.Duration]() {
		return true
	}
	return t.NumMethod() > 0 && (t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) ||
		t.Implements(reflect.TypeFor[interface{ MarshalYAML() (any, error) }]()) || t.Implements(reflect.TypeFor[interface{ IsZero() bool }]()))
}

// members writes a struct's members, which others precede when it is a part of another one.
func (w *writer) members(v reflect.Value, others bool) bool {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, flags, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		switch {
		case !field.IsExported() && !field.Anonymous:
			continue
		case name == "" && flags == "inline" && v.Field(i).Kind() == reflect.Struct && !special(v.Field(i).Type()):
			others = w.members(v.Field(i), others)
			continue
		case name == "-" && flags == "":
			continue
		case name == "" || flags != "" && flags != "omitempty":
			w.ok = false
			return others
		case flags == "omitempty" && w.empty(v.Field(i)):
			continue
		}
		if others {
			w.out.WriteByte(',')
		}
		w.text(name)
		w.out.WriteByte(':')
		w.value(v.Field(i))
		others = true
	}
	return others
}

// empty is whether YAML omits a member that may be omitted.
func (w *writer) empty(v reflect.Value) bool {
	if at, is := timeOf(v); is {
		return at.IsZero()
	}
	switch v.Kind() {
	case reflect.Struct:
		w.ok = false
	case reflect.Slice:
		return v.Len() == 0
	}
	return v.IsZero()
}

// list writes a list; YAML knows no nil one.
func (w *writer) list(v reflect.Value) {
	w.out.WriteByte('[')
	for i := range v.Len() {
		if i > 0 {
			w.out.WriteByte(',')
		}
		w.value(v.Index(i))
	}
	w.out.WriteByte(']')
}

// text writes a text. YAML makes another kind of value of one that isn't UTF-8.
func (w *writer) text(s string) {
	plain := true
	for i := range len(s) {
		plain = plain && ' ' <= s[i] && s[i] <= '~' && s[i] != '"' && s[i] != '\\'
	}
	switch {
	case plain:
		w.out.WriteByte('"')
		w.out.WriteString(s)
		w.out.WriteByte('"')
	case utf8.ValidString(s):
		w.any(s)
	default:
		w.ok = false
	}
}

// any writes a value as yamljson does.
func (w *writer) any(v any) {
	text, err := yamljson.Marshal(v)
	if err != nil {
		w.ok = false
		return
	}
	w.out.Write(text)
}
