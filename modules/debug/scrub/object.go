package scrub

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
)

// maxDepth is how deep a line's JSON is parsed; deeper JSON is scrubbed as text.
const maxDepth = 32

// object scrubs a line that is one JSON object, keeping the order of its
// members; ok is false when the line is something else.
func object(line string) (clean string, ok bool) {
	trimmed := strings.TrimSpace(line)
	if !strings.HasPrefix(trimmed, "{") || !json.Valid([]byte(trimmed)) {
		return "", false
	}
	d := json.NewDecoder(strings.NewReader(trimmed))
	d.UseNumber()
	w := &writer{}
	if !w.value(d, 0) {
		return "", false
	}
	if _, err := d.Token(); err != io.EOF {
		return "", false
	}
	return w.out.String(), true
}

// writer copies a decoder's JSON without secrets.
type writer struct{ out bytes.Buffer }

// value copies one value; it returns false for JSON too deep or malformed.
func (w *writer) value(d *json.Decoder, depth int) bool {
	t, err := d.Token()
	if err != nil || depth > maxDepth {
		return false
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '{' {
			return w.members(d, depth)
		}
		return w.items(d, depth)
	case string:
		// A string may be a JSON document embedded as text.
		return w.text(Line(t))
	case json.Number:
		w.out.WriteString(t.String())
		return true
	case bool:
		w.out.WriteString(map[bool]string{true: "true", false: "false"}[t])
		return true
	}
	w.out.WriteString("null")
	return true
}

func (w *writer) members(d *json.Decoder, depth int) bool {
	w.out.WriteByte('{')
	for n := 0; d.More(); n++ {
		key, err := d.Token()
		name, isText := key.(string)
		if err != nil || !isText {
			return false
		}
		if n > 0 {
			w.out.WriteByte(',')
		}
		if !w.text(text(name)) {
			return false
		}
		w.out.WriteByte(':')
		if secretName(name) {
			if !w.hidden(d) {
				return false
			}
			continue
		}
		if !w.value(d, depth+1) {
			return false
		}
	}
	w.out.WriteByte('}')
	_, err := d.Token()
	return err == nil
}

func (w *writer) items(d *json.Decoder, depth int) bool {
	w.out.WriteByte('[')
	for n := 0; d.More(); n++ {
		if n > 0 {
			w.out.WriteByte(',')
		}
		if !w.value(d, depth+1) {
			return false
		}
	}
	w.out.WriteByte(']')
	_, err := d.Token()
	return err == nil
}

// hidden writes the mask for a value. Booleans, null and the empty string are
// kept: they can't be secrets.
func (w *writer) hidden(d *json.Decoder) bool {
	var raw json.RawMessage
	if err := d.Decode(&raw); err != nil {
		return false
	}
	switch plain := string(bytes.TrimSpace(raw)); plain {
	case "true", "false", "null", `""`:
		w.out.WriteString(plain)
		return true
	}
	return w.text(Mask)
}

// text writes a JSON string as zerolog does, without escapes for HTML.
func (w *writer) text(s string) bool {
	e := json.NewEncoder(&w.out)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return false
	}
	w.out.Truncate(w.out.Len() - 1)
	return true
}
