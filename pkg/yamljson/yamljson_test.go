package yamljson_test

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/yamljson"
)

func TestToJSON(t *testing.T) {
	for in, want := range map[string]string{
		"":                                `null`,
		"z: 1\na: [x, 2.5, true]\n":       `{"z":1,"a":["x",2.5,true]}`,
		"a: {}\nb: []\nc:\n":              `{"a":{},"b":[],"c":null}`,
		"a: \"yes\"\nb: '007'\n":          `{"a":"yes","b":"007"}`,
		"a: 18446744073709551615\n":       `{"a":18446744073709551615}`,
		"since: 2026-11-24T10:00:00.5Z\n": `{"since":"2026-11-24T10:00:00.5Z"}`,
		"a: .inf\nb: <&>\n":               `{"a":".inf","b":"<&>"}`,
		"7: seven\n":                      `{"7":"seven"}`,
		"a: |\n  x\n  y\n":                `{"a":"x\ny\n"}`,
	} {
		got, err := yamljson.ToJSON([]byte(in))
		if err != nil || string(got) != want {
			t.Errorf("%q: %s, %v; want %s", in, got, err, want)
		}
	}
}

func TestHostileYAML(t *testing.T) {
	for in, want := range map[string]string{
		"a: &x [1]\nb: *x\n":              "has an alias",
		strings.Repeat("[", 200) + "\n":   "cannot read YAML",
		strings.Repeat("- ", 150) + "1\n": "nested deeper than 100",
		"? [a]\n: b\n":                    "isn't a text",
		"a: \x01":                         "cannot read YAML",
	} {
		if got, err := yamljson.ToJSON([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %s, %v", in, got, err)
		}
	}
}

// TestBothWays: what is written as YAML reads as the same JSON.
func TestBothWays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := map[string]any{}
		for _, key := range rapid.SliceOfN(rapid.StringMatching(`[a-z0-9~ :#-]{1,6}`), 0, 5).Draw(t, "keys") {
			in[key] = rapid.OneOf(
				rapid.SampledFrom([]any{"true", "null", "~", "7", "1e3", "2030-01-01", "", " x", "a: b", "#", "- a", "line\nline", "<<", true, nil, 7.5, []any{"a", nil}}),
				rapid.Map(rapid.StringMatching(`[ -~]{0,8}`), func(s string) any { return s }),
			).Draw(t, "value")
		}
		want, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		text, err := yamljson.ToYAML(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := yamljson.ToJSON(text)
		var same map[string]any
		if err != nil || json.Unmarshal(got, &same) != nil {
			t.Fatalf("%v of\n%s", err, text)
		}
		if again, err := json.Marshal(same); err != nil || string(again) != string(want) {
			t.Fatalf("got %s, want %s, by\n%s", again, want, text)
		}
	})
}
