package strictjson_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/fielderror"
	"github.com/croft-edge/croft/pkg/strictjson"
)

const most = 512 << 10

// wide is an object of many members.
func wide(members int) string {
	var b strings.Builder
	for i := range members {
		fmt.Fprintf(&b, `,"n%d":0`, members-i)
	}
	return "{" + b.String()[1:] + "}"
}

func nested(open, inner, end string, n int) string {
	return strings.Repeat(open, n) + inner + strings.Repeat(end, n)
}

func TestRefusedTexts(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{``, "cannot read data: unexpected end of JSON input"},
		{`{"a":1`, "cannot read data: unexpected end of JSON input"},
		{`{nonsense`, "cannot read data: invalid character 'n' looking for beginning of object key string"},
		{`{"a":1,}`, "cannot read data: invalid character '}' looking for beginning of object key string"},
		{`{1:2}`, "cannot read data: invalid character '1' looking for beginning of object key string"},
		{`[1}`, "cannot read data: invalid character '}' after array element"},
		{`{}{}`, "cannot read data: invalid character '{' after top-level value"},
		{"{}\x00", `cannot read data: invalid character '\x00' after top-level value`},
		{"\"\xff\"", "cannot read data: it isn't UTF-8"},
		{"[\"\xed\xa0\x80\"]", "cannot read data: it isn't UTF-8"},
		{`"` + strings.Repeat("x", most) + `"`, "cannot read data: it has 524290 bytes, at most 524288 are allowed"},
		{nested("[", "1", "]", 33), "cannot read data: it lies deeper than 32 objects and arrays"},
		{nested(`{"a":`, "{}", "}", 33), "cannot read data: it lies deeper than 32 objects and arrays"},
		{"[" + strings.Repeat("0,", strictjson.MaxValues-1) + "0]", "cannot read data: it has more than 32768 values"},
		{`{"a":1,"a":1}`, "cannot accept data.a: it is there twice, must be there once"},
		{`{"id":1,"\u0069d":1}`, "cannot accept data.id: it is there twice, must be there once"},
		{`{"a":[0,{"b.c":{"~/":1,"~/":1}}]}`, "cannot accept data.a[1].b.c.~/: it is there twice, must be there once"},
		{`[{"":{"":1,"":1}}]`, "cannot accept data[0]..: it is there twice, must be there once"},
		{`{"b":` + wide(257) + `}`, "cannot accept data.b: it is an object of more members, must be an object of at most 256 members"},
		{wide(257), "cannot accept data: it is an object of more members, must be an object of at most 256 members"},
		{`[0,{"a":9007199254740992}]`, "cannot accept data[1].a: it is 9007199254740992, must be a number from -9007199254740991 to 9007199254740991"},
		{`{"a":-1e16}`, "cannot accept data.a: it is -1e16, must be a number from -9007199254740991 to 9007199254740991"},
		{`1e999`, "cannot accept data: it is 1e999, must be a number from -9007199254740991 to 9007199254740991"},
		{`{"a":["x\ud800"]}`, `cannot accept data.a[0]: it is a text with half of a surrogate pair, \ud800, must be valid Unicode`},
		{`"\uD800\uD800"`, `cannot accept data: it is a text with half of a surrogate pair, \uD800, must be valid Unicode`},
		{`"\\\uDC00"`, `cannot accept data: it is a text with half of a surrogate pair, \uDC00, must be valid Unicode`},
		{`[{"a\udead":1}]`, `cannot accept data[0].a` + "\ufffd" + `: it is a text with half of a surrogate pair, \udead, must be valid Unicode`},
		// What isn't JSON is refused for that, whatever stands before.
		{`{"a":1,"a":2`, "cannot read data: unexpected end of JSON input"},
		{`["\ud800",1e999,`, "cannot read data: unexpected end of JSON input"},
		{"[\"\\ud800\",\"\xff\"]", "cannot read data: it isn't UTF-8"},
	} {
		err := strictjson.CheckNumbers("data", []byte(c.text), most)
		if err == nil || err.Error() != c.want {
			t.Errorf("%.80q: error is %v, want %s", c.text, err, c.want)
		}
		var field *fielderror.Error
		if errors.As(err, &field) != strings.HasPrefix(c.want, "cannot accept") {
			t.Errorf("%.80q: error is of type %T", c.text, err)
		}
		if _, again := strictjson.Canonical("data", []byte(c.text), most); again == nil || again.Error() != c.want {
			t.Errorf("%.80q: Canonical's error is %v, want %s", c.text, again, c.want)
		}
	}
	if err := strictjson.Check([]byte(`{"a":1,"a":1}`), most); err == nil || err.Error() != "cannot accept a: it is there twice, must be there once" {
		t.Errorf("without a path: %v", err)
	}
}

func TestRules(t *testing.T) {
	rules := strictjson.Rules{Name: "the body", Bytes: most, Levels: 32, NameBytes: 8, Folded: true}
	for _, c := range []struct{ text, want string }{
		{`{"a":{"A":1},"b":1e999}`, ""},
		{nested("[", "1", "]", 32), ""},
		{nested("[", "", "]", 33), "cannot read the body: it lies deeper than 32 objects and arrays"},
		{`{"a":[{"c":1,"C":1}]}`, "cannot accept a[0].C: it is there twice, must be there once"},
		{`{"12345678":1}`, ""},
		{`{"123456789":1}`, "cannot accept 123456789: it is a longer name, must be a name of at most 8 bytes"},
		{`{"É":1,"\u00e9":2}`, "cannot accept é: it is there twice, must be there once"},
		{`{"size":1,"\u017fize":2}`, "cannot accept ſize: it is there twice, must be there once"},
		{`{"kind":1,"\u212aind":2}`, "cannot accept \u212aind: it is there twice, must be there once"},
		{`{}{}`, "cannot read the body: invalid character '{' after top-level value"},
		{wide(257), "cannot accept the body: it is an object of more members, must be an object of at most 256 members"},
	} {
		err := rules.Check([]byte(c.text))
		if (err == nil) != (c.want == "") || err != nil && err.Error() != c.want {
			t.Errorf("%.80q: error is %v, want %s", c.text, err, c.want)
		}
	}
}

func TestAcceptedTexts(t *testing.T) {
	for text, canonical := range map[string]string{
		` {"b" : 1 , "a":[true,null,"x"]} `: `{"a":[true,null,"x"],"b":1}`,
		"9007199254740991":                  "9007199254740991",
		"-9007199254740991":                 "-9007199254740991",
		"-0":                                "0",
		"1e-400":                            "0",
		"1.0E2":                             "100",
		"1.2345678901234567e-300":           "1.2345678901234568e-300",
		`"\u000A\u001f\/\u00e9\uD83D\uDE00\u2028"`:    `"\n\u001f/é😀` + "\u2028" + `"`,
		`{"\ue000":1,"\ud83d\ude00":2,"z":3}`:         `{"z":3,"😀":2,"` + "\ue000" + `":1}`,
		nested("[", "1", "]", 32):                     nested("[", "1", "]", 32),
		nested("[", "", "]", 33):                      nested("[", "", "]", 33),
		`{"a":{"b":{},"a":[]},"A":1}`:                 `{"A":1,"a":{"a":[],"b":{}}}`,
		`{"a":"a","b":"b","` + "\x7f" + `":"\u007f"}`: `{"a":"a","b":"b","` + "\x7f" + `":"` + "\x7f" + `"}`,
	} {
		if got, err := strictjson.Canonical("", []byte(text), most); err != nil || string(got) != canonical {
			t.Errorf("%s: %s, %v, want %s", text, got, err, canonical)
		}
	}
	if err := strictjson.Check([]byte(wide(strictjson.MaxMembers)), most); err != nil {
		t.Error(err)
	}
	if err := strictjson.Check([]byte("[1e999,9007199254740993]"), most); err != nil {
		t.Error(err)
	}
}

// BenchmarkCheck and BenchmarkCanonical read texts of one shape, as long as they may be, and a usual one.
func BenchmarkCheck(b *testing.B) {
	for name, text := range shapes() {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if err := strictjson.Check(text, most); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCanonical(b *testing.B) {
	for name, text := range shapes() {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := strictjson.Canonical("data", text, most); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func shapes() map[string][]byte {
	list := func(item string, n int) []byte { return []byte("[" + strings.Repeat(item+",", n-1) + item + "]") }
	return map[string][]byte{
		"usual":     []byte(`{"flist":"https://hub.example/web.flist","env":{"A":"1","B":"2"},"mounts":[{"volume_id":"1-1","mountpoint":"/data"}],"network":{"network_id":"net1","ips":["10.1.1.2"]},"capacity":{"cpu":2,"memory":512}}`),
		"fractions": list("0.12345678901234", 30000),
		"objects":   list(`{"a":{}}`, 10900),
		"wide":      list(wide(strictjson.MaxMembers), 127),
		"one text":  []byte(`"` + strings.Repeat("x", most-2) + `"`),
		"escapes":   []byte(`"` + strings.Repeat(`\n`, most/2-1) + `"`),
	}
}
