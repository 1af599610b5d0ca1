package workload_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/workload"
)

// RFC 8785's own examples, as far as numbers within ±MaxInteger go, and cases that
// libraries are known to get wrong.
func TestCanonicalAsPublished(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"3.2.2", `{"numbers":[333333333.33333329,4.50,2e-3,0.000000000000000000000000001],"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}`,
			`{"literals":[null,true,false],"numbers":[333333333.3333333,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`},
		{"3.2.3: names by UTF-16", `{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One","\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}`,
			"{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u0080\":\"Control\",\"ö\":\"Latin Small Letter O With Diaeresis\",\"€\":\"Euro Sign\",\"😀\":\"Emoji: Grinning Face\",\"\ufb33\":\"Hebrew Letter Dalet With Dagesh\"}"},
		{"zero", `[0,-0,0.0,-0.0,0e5]`, `[0,0,0,0,0]`},
		{"integers", `[10,1e1,10.0,100e-1,1E+1,0.1e2]`, `[10,10,10,10,10,10]`},
		{"the largest and the smallest", `[9007199254740991,-9007199254740991,9.007199254740991e15]`, `[9007199254740991,-9007199254740991,9007199254740991]`},
		{"small numbers", `[0.000001,0.0000001,1e-7,5e-324,4.9406564584124654e-324]`, `[0.000001,1e-7,1e-7,5e-324,5e-324]`},
		{"escapes", `"\u0008\u0009\u000a\u000c\u000d\u0000\u001f\u007f\u003c\u003e\u0026\u2028"`, "\"\\b\\t\\n\\f\\r\\u0000\\u001f\u007f<>&\u2028\""},
		{"no normalisation", `["\u00e9","e\u0301"]`, "[\"\u00e9\",\"e\u0301\"]"},
		{"white space", " { \"b\" :\t[ ] ,\r\n\"a\" : { } } ", `{"a":{},"b":[]}`},
		{"names that are prefixes", `{"ab":1,"a":2,"":3}`, `{"":3,"a":2,"ab":1}`},
		{"a pair", `"\ud83d\ude00"`, `"😀"`},
		{"a replacement character", `"\ufffd"`, "\"\ufffd\""},
		{"null alone", "null", "null"},
		{"null with space", " null\n", "null"},
		{"a number alone", " 1e1 ", "10"},
	} {
		got, err := workload.Canonical(json.RawMessage(c.in))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %s, %v, want %s", c.name, got, err, c.want)
		}
	}
}

// Texts that the library below takes for JSON, or fails on.
func TestCanonicalRefuses(t *testing.T) {
	for name, in := range map[string]string{
		"nothing":                "",
		"space":                  " ",
		"breaks off in a name":   `{"a":1,"b`,
		"a name with an escape":  `{"a":1,"\x":2}`,
		"a space in a number":    `[1 2]`,
		"a hexadecimal number":   `[0x10]`,
		"an infinite number":     `[Inf]`,
		"not a number":           `[NaN]`,
		"a leading zero":         `[01]`,
		"a plus":                 `[+1]`,
		"no digit":               `[.5]`,
		"underscores":            `[0x1_0]`,
		"a capital literal":      `[True]`,
		"a wrong pair":           `"\ud83dA"`,
		"an invalid byte":        "\"\xff\"",
		"names twice":            `{"a":1,"a":1}`,
		"names twice by escapes": `{"a":1,"\u0061":1}`,
		"a trailing comma":       `[1,]`,
		"1e400":                  `[1e400]`,
		"2^53":                   `[9007199254740992]`,
		"2^64":                   `[18446744073709551616]`,
		"too deep":               strings.Repeat("[", 1<<18),
		"too long":               `"` + strings.Repeat("x", workload.MaxData) + `"`,
	} {
		got, err := workload.Canonical(json.RawMessage(in))
		if wantError(t, name, err); got != nil {
			t.Errorf("%s: %.40s comes with an error", name, got)
		}
	}
}

func TestCanonicalIsItsOwnCanonicalForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := anyJSON(3).Draw(t, "json")
		once, err := workload.Canonical(json.RawMessage(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		twice, err := workload.Canonical(once)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%s became %s became %s, %v", text, once, twice, err)
		}
		var a, b any
		if json.Unmarshal([]byte(text), &a) != nil || json.Unmarshal(once, &b) != nil {
			t.Fatal("it isn't JSON")
		}
		// -0 and 0 are equal, and one canonical form.
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("%s has another value than %s", once, text)
		}
	})
}
