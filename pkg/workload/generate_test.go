package workload_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/workload"
)

// anyJSON makes JSON texts that are valid data: objects and arrays up to a depth.
func anyJSON(depth int) *rapid.Generator[string] {
	text := rapid.Map(rapid.String(), quoteJSON)
	number := rapid.Map(rapid.Int64Range(-workload.MaxInteger, workload.MaxInteger), func(n int64) string { return strconv.FormatInt(n, 10) })
	fraction := rapid.Map(rapid.Float64Range(-1e9, 1e9), func(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) })
	leaf := rapid.OneOf(text, number, fraction, rapid.SampledFrom([]string{"null", "true", "false", "0", `""`, "{}", "[]"}))
	if depth == 0 {
		return leaf
	}
	array := rapid.Map(rapid.SliceOfN(anyJSON(depth-1), 0, 4), func(items []string) string { return "[" + strings.Join(items, ",") + "]" })
	return rapid.OneOf(leaf, array, anyObject(depth-1))
}

func anyObject(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		names := rapid.SliceOfNDistinct(rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-c]{0,2}`)), 0, 5, rapid.ID[string]).Draw(t, "names")
		members := make([]string, len(names))
		for i, name := range names {
			members[i] = quoteJSON(name) + ":" + anyJSON(depth).Draw(t, "value")
		}
		return "{" + strings.Join(members, ",") + "}"
	})
}

func quoteJSON(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// rewrite writes a JSON text in another of its forms: other white space,
// order of members, escapes, forms of numbers. Its random draws decide which.
func rewrite(t *rapid.T, text []byte) string {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	w := rewriter{t: t}
	out := w.value(d)
	if _, err := d.Token(); err != io.EOF {
		t.Fatalf("%s isn't one value", text)
	}
	return w.space() + out + w.space()
}

type rewriter struct{ t *rapid.T }

func (w rewriter) space() string {
	return rapid.SampledFrom([]string{"", "", "", " ", "\n", "\t ", "\r\n"}).Draw(w.t, "space")
}

func (w rewriter) value(d *json.Decoder) string {
	token, err := d.Token()
	if err != nil {
		w.t.Fatal(err)
	}
	switch v := token.(type) {
	case json.Delim:
		if v == '{' {
			return w.object(d)
		}
		return w.array(d)
	case string:
		return w.text(v)
	case json.Number:
		return w.number(v.String())
	case nil:
		return "null"
	}
	return fmt.Sprint(token)
}

func (w rewriter) object(d *json.Decoder) string {
	var members []string
	for d.More() {
		name, err := d.Token()
		if err != nil {
			w.t.Fatal(err)
		}
		members = append(members, w.space()+w.text(name.(string))+w.space()+":"+w.space()+w.value(d)+w.space())
	}
	if _, err := d.Token(); err != nil {
		w.t.Fatal(err)
	}
	return "{" + strings.Join(rapid.Permutation(members).Draw(w.t, "order"), ",") + "}"
}

func (w rewriter) array(d *json.Decoder) string {
	var items []string
	for d.More() {
		items = append(items, w.space()+w.value(d)+w.space())
	}
	if _, err := d.Token(); err != nil {
		w.t.Fatal(err)
	}
	return "[" + strings.Join(items, ",") + "]"
}

// text writes some characters as escapes, in capital digits or small ones.
func (w rewriter) text(s string) string {
	var out strings.Builder
	out.WriteByte('"')
	every := rapid.IntRange(1, 5).Draw(w.t, "escapes")
	form := rapid.SampledFrom([]string{`\u%04x`, `\u%04X`}).Draw(w.t, "form")
	for i, c := range []rune(s) {
		switch {
		case i%every == 0 || c < ' ' || c == '"' || c == '\\':
			for _, u := range utf16.Encode([]rune{c}) {
				fmt.Fprintf(&out, form, u)
			}
		case c == '/' && every > 2:
			out.WriteString(`\/`)
		default:
			out.WriteRune(c)
		}
	}
	out.WriteByte('"')
	return out.String()
}

// number writes the same double differently; an integer of more than 53 bits
// stays the same integer.
func (w rewriter) number(text string) string {
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil && n == 0 {
		return rapid.SampledFrom([]string{"0", "-0", "0.0", "0e1", "-0.00E-7"}).Draw(w.t, "zero")
	}
	if err == nil {
		return strconv.FormatInt(n, 10) + rapid.SampledFrom([]string{"", ".0", "e0", "E+0", ".00e-0", "0e-1", "000e-03"}).Draw(w.t, "number")
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		w.t.Fatal(err)
	}
	return strconv.FormatFloat(f, rapid.SampledFrom([]byte{'e', 'f', 'g', 'E'}).Draw(w.t, "form"), -1, 64)
}
