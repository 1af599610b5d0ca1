package render_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"github.com/croft-edge/croft/cmd/croft/internal/render"
)

type sample struct {
	Name string          `json:"name"`
	Size int             `json:"size"`
	Data json.RawMessage `json:"data"`
	List []string        `json:"list"`
	Skip string          `json:"skip,omitempty"`
}

func value() sample {
	return sample{Name: "a <b> & \"c\": d", Size: 7, Data: json.RawMessage(`{"x":[1,2]}`), List: []string{}}
}

// TestForms is golden: programs read these.
func TestForms(t *testing.T) {
	rows := render.Rows{Head: []string{"NAME", "SIZE", "DETAIL"}, Rows: [][]string{{"a", "7", ""}, {"long name", "10", "more\nlines\x1b[31m"}}}
	for f, want := range map[render.Format]string{
		render.Table: "NAME       SIZE  DETAIL\na          7\nlong name  10    more lines [31m\n",
		render.JSON: `{
  "name": "a <b> & \"c\": d",
  "size": 7,
  "data": {
    "x": [
      1,
      2
    ]
  },
  "list": []
}
`,
		render.YAML: `name: 'a <b> & "c": d'
size: 7
data:
  x:
    - 1
    - 2
list: []
`,
	} {
		var out bytes.Buffer
		if err := render.Write(&out, f, value(), rows); err != nil || out.String() != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", f, err, out.String(), want)
		}
	}
}

// TestYAMLMatchesJSON: text that looks like something else stays text.
func TestYAMLMatchesJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := map[string]any{}
		for _, key := range rapid.SliceOfN(rapid.StringMatching(`[a-z0-9~ :#-]{1,6}`), 0, 5).Draw(t, "keys") {
			in[key] = rapid.OneOf(
				rapid.SampledFrom([]any{"true", "null", "~", "7", "1e3", "2030-01-01", "", " x", "a: b", "#", "- a", "line\nline", "<<", true, nil, 7.0}),
				rapid.Map(rapid.StringMatching(`[ -~]{0,8}`), func(s string) any { return s }),
			).Draw(t, "value")
		}
		var out bytes.Buffer
		if err := render.Write(&out, render.YAML, in, render.Rows{}); err != nil {
			t.Fatal(err)
		}
		got := map[string]any{}
		if err := yaml.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatalf("%v:\n%s", err, out.String())
		}
		want, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		have, err := json.Marshal(got)
		if err != nil || string(have) != string(want) {
			t.Fatalf("got %s, want %s, from\n%s (%v)", have, want, out.String(), err)
		}
	})
}

func TestParseFormat(t *testing.T) {
	for _, s := range []string{"table", "json", "yaml"} {
		if f, err := render.ParseFormat(s); err != nil || string(f) != s {
			t.Errorf("%s: %v, %v", s, f, err)
		}
	}
	if _, err := render.ParseFormat("xml"); err == nil || !strings.Contains(err.Error(), "table, json or yaml") {
		t.Errorf("xml: %v", err)
	}
}

func TestColumnsFitEachOther(t *testing.T) {
	var out bytes.Buffer
	for i, head := range [][]string{{"ONE", "TWO", "THREE"}, nil} {
		if err := render.Columns(&out, head, []int64{int64(i), 22, 333}); err != nil {
			t.Fatal(err)
		}
	}
	if want := "ONE       TWO       THREE\n0         22        333\n1         22        333\n"; out.String() != want {
		t.Errorf("got\n%s", out.String())
	}
}

func TestLine(t *testing.T) {
	if got := render.Line("grün\tx\x00\u202ey"); got != "grün x  y" {
		t.Errorf("got %q", got)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestWriterErrors(t *testing.T) {
	for _, f := range []render.Format{render.Table, render.JSON, render.YAML} {
		if err := render.Write(broken{}, f, value(), render.Rows{Head: []string{"A"}}); err == nil || !strings.Contains(err.Error(), "full") {
			t.Errorf("%s: %v", f, err)
		}
	}
	if err := render.Columns(broken{}, nil, []int64{1}); err == nil {
		t.Error("columns: no error")
	}
	if err := render.JSONLine(broken{}, 1); err == nil {
		t.Error("line: no error")
	}
}
