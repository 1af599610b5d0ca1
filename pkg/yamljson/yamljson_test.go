package yamljson_test

import (
	"encoding/json"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
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

// TestCharactersThatYAMLRefuses holds that texts survive with the characters that JSON may have as they are, and YAML may not.
func TestCharactersThatYAMLRefuses(t *testing.T) {
	for _, r := range []rune{0x7f, 0x80, 0x85, 0x9b, 0x9f, 0xa0, 0xe9, 0x2028, 0x2029, 0xfeff, 0xfffd, 0xfffe, 0xffff, 0x1f600} {
		want := "a" + string(r) + "b"
		text, err := yamljson.Marshal(map[string]string{"k": want})
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]string
		if err := yaml.Unmarshal(text, &got); err != nil || got["k"] != want {
			t.Errorf("%U: YAML reads %s as %q, %v", r, text, got["k"], err)
		}
		if !yamljson.Plain(text) {
			t.Errorf("%U: %s isn't plain", r, text)
		}
		raw, err := json.Marshal(map[string]string{"k": want}) // as others write it
		if err != nil {
			t.Fatal(err)
		}
		for _, in := range [][]byte{text, raw} {
			written, err := yamljson.ToYAML(in)
			if err != nil {
				t.Errorf("%U: %v", r, err)
				continue
			}
			back, err := yamljson.ToJSON(written)
			got = nil
			if err != nil || json.Unmarshal(back, &got) != nil || got["k"] != want {
				t.Errorf("%U: YAML %q is read as %s, %v", r, written, back, err)
			}
		}
	}
}

func TestPlain(t *testing.T) {
	nested := func(levels int) string {
		return `{"a":` + strings.Repeat("[", levels-1) + strings.Repeat("]", levels-1) + "}"
	}
	for in, want := range map[string]bool{
		`{"a":1}`: true, nested(100): true, nested(101): false, nested(3000): false, `{"a"`: false, "a: 1\n": false, `["a"]`: false, "{a: 1}": false,
	} {
		if got := yamljson.Plain([]byte(in)); got != want {
			t.Errorf("%.20s of %d characters: plain is %t", in, len(in), got)
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
