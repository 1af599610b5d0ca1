package workload_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/workload"
)

// good is the recorded volume, to break.
const good = `{"id":"","node_id":"5f4NTehmQGhwTDCtorQTFL58HfopFWDXDSR8BqRu6ddZ","user_id":"6Y6usApYSWiMRSNvnBFHL6vbSJamoCsjjwJsn6q4mpry","type":"volume","data":{"size":10,"type":"SSD"},"created":"2026-11-20T13:16:34.041316027Z","duration":2592000000000000,"signature":"MrtYaBDzRUX5ZLmdCmfwkUl1FbSl78xNKUHgsuP2GrbWLddw4i8TsQvdSmP4r90pQgbZ5JXkkmzb3mODrppUBA==","to_delete":false}`

// with replaces a part of the good document, which must be there.
func with(t testing.TB, old, new string) string {
	t.Helper()
	if !strings.Contains(good, old) {
		t.Fatalf("the good document has no %s", old)
	}
	return strings.Replace(good, old, new, 1)
}

func data(t testing.TB, text string) string {
	return with(t, `{"size":10,"type":"SSD"}`, text)
}

func TestDecodeRefuses(t *testing.T) {
	const version = `"to_delete":false`
	for _, c := range []struct {
		name, body string
		want       []string
	}{
		{"nothing", "", []string{"unexpected end"}},
		{"null", "null", []string{"document", "an object"}},
		{"array", "[]", []string{"document", "an object"}},
		{"text", `"x"`, []string{"document", "an object"}},
		{"empty object", "{}", []string{"missing"}},
		{"trailing object", good + "{}", []string{"after top-level value"}},
		{"trailing garbage", good + "\x00", []string{"after top-level value"}},
		{"byte order mark", "\ufeff" + good, []string{"invalid character"}},
		{"comment", with(t, `"id":""`, `/**/"id":""`), []string{"invalid character"}},
		{"trailing comma", with(t, `"to_delete":false`, `"to_delete":false,`), []string{"invalid character"}},
		{"torn", good[:len(good)-20], []string{"unexpected end"}},
		{"invalid UTF-8", data(t, "{\"size\":10,\"type\":\"SSD\xff\"}"), []string{"isn't UTF-8"}},
		{"UTF-8 of a surrogate", data(t, "{\"size\":10,\"type\":\"\xed\xa0\x80\"}"), []string{"isn't UTF-8"}},
		{"high surrogate alone", data(t, `{"size":10,"type":"\ud800"}`), []string{"data.type", `\ud800`, "surrogate"}},
		{"high surrogate before a letter", data(t, `{"size":10,"type":"\ud800A"}`), []string{"surrogate"}},
		{"high surrogate before another", data(t, `{"size":10,"type":"\ud800\ud800"}`), []string{"surrogate"}},
		{"low surrogate alone", data(t, `{"size":10,"type":"a\\\uDC00"}`), []string{"surrogate"}},
		{"surrogate in a name", data(t, `{"size":10,"\udead":1}`), []string{"surrogate"}},
		{"surrogate in the envelope", with(t, `"id":""`, `"id":"\ud83d"`), []string{"cannot accept id", "surrogate"}},

		{"member twice", with(t, `"id":""`, `"id":"","id":""`), []string{"cannot accept id", "there twice", "there once"}},
		{"member twice, one escaped", with(t, `"id":""`, `"id":"","\u0069d":""`), []string{"cannot accept id", "there twice"}},
		{"data's member twice", data(t, `{"size":10,"type":"SSD","size":11}`), []string{"data.size", "there twice"}},
		{"deep member twice", data(t, `{"a":[0,{"b":{"c":1,"c":1}}]}`), []string{"data.a[1].b.c", "there twice"}},
		{"data twice", with(t, `"created"`, `"data":{},"created"`), []string{"cannot accept data", "there twice"}},
		{"data in another case", with(t, `"data"`, `"Data"`), []string{"cannot accept Data", "in another case", `"data"`}},
		{"node_id in another case too", with(t, `"id":""`, `"id":"","NODE_ID":"x"`), []string{"NODE_ID", `"node_id"`}},
		{"a name that folds", with(t, `"id":""`, `"id":"","u\u017fer_id":"x"`), []string{"in another case", `"user_id"`}},
		{"unknown member", with(t, `"id":""`, `"id":"","color":"red"`), []string{"cannot accept color", "unknown"}},
		{"result", with(t, version, version+`,"result":null`), []string{"cannot accept result", "unknown"}},
		{"tag", with(t, version, version+`,"tag":{}`), []string{"cannot accept tag"}},
		{"missing data", with(t, `"data":{"size":10,"type":"SSD"},`, ""), []string{"cannot accept data", "missing"}},
		{"missing node", with(t, `"node_id":"5f4NTehmQGhwTDCtorQTFL58HfopFWDXDSR8BqRu6ddZ",`, ""), []string{"node_id", "missing"}},

		{"integer beyond", data(t, `{"size":9007199254740992,"type":"SSD"}`), []string{"data.size", "9007199254740992", "9007199254740991"}},
		{"integer below", data(t, `{"size":-9007199254740992,"type":"SSD"}`), []string{"data.size", "-9007199254740991"}},
		{"integer that rounds there", data(t, `{"size":9007199254740991.5,"type":"SSD"}`), []string{"data.size"}},
		{"1e300", data(t, `{"size":1e300,"type":"SSD"}`), []string{"data.size", "1e300"}},
		{"1.0e20", data(t, `{"size":1.0e20,"type":"SSD"}`), []string{"data.size", "1.0e20"}},
		{"1e999", data(t, `{"size":1e999,"type":"SSD"}`), []string{"data.size", "1e999"}},
		{"a long number", data(t, `{"size":1`+strings.Repeat("0", 5000)+`,"type":"SSD"}`), []string{"data.size", "…"}},
		{"an integer deep inside", data(t, `{"a":[[{"b":1e17}]]}`), []string{"data.a[0][0].b", "1e17"}},

		{"version 0", with(t, version, version+`,"version":0`), []string{"cannot accept version", "0", "1 or 2"}},
		{"version 3", with(t, version, version+`,"version":3`), []string{"cannot accept version", "3", "1 or 2"}},
		{"version -1", with(t, version, version+`,"version":-1`), []string{"cannot accept version"}},
		{"version 2^32+2", with(t, version, version+`,"version":4294967298`), []string{"cannot accept version"}},
		{"version as text", with(t, version, version+`,"version":"2"`), []string{"cannot accept version"}},
		{"nonce in version 1", with(t, version, version+`,"nonce":"AAAAAAAAAAAAAAAAAAAAAA=="`), []string{"cannot accept nonce", "absent in version 1"}},
		{"unknown member of a deletion", with(t, version, version+`,"deletion":{"created":"2026-11-20T13:16:34Z","signature":"AA==","x":1}`), []string{"deletion.x", "unknown"}},
		{"deletion that is no object", with(t, version, version+`,"deletion":[]`), []string{"cannot accept deletion", "an object"}},
		{"renewal without a time", with(t, version, version+`,"renewal":{"signature":"AA=="}`), []string{"renewal.expires", "missing"}},
		{"renewal in another case", with(t, version, version+`,"renewal":{"Expires":"2026-11-20T13:16:34Z"}`), []string{"renewal.Expires", "another case"}},

		{"duration as text", with(t, `2592000000000000`, `"720h"`), []string{"cannot accept duration", "64 bits"}},
		{"half a nanosecond", with(t, `2592000000000000`, `0.5`), []string{"cannot accept duration"}},
		{"duration beyond int64", with(t, `2592000000000000`, `9223372036854775808`), []string{"cannot accept duration"}},
		{"duration 1e30", with(t, `2592000000000000`, `1e30`), []string{"cannot accept duration"}},
		{"duration 1e999999999", with(t, `2592000000000000`, `1e999999999`), []string{"cannot accept duration"}},
		{"duration null", with(t, `2592000000000000`, `null`), []string{"cannot accept duration"}},

		{"created null", with(t, `"2026-11-20T13:16:34.041316027Z"`, `null`), []string{"cannot accept created"}},
		{"created a number", with(t, `"2026-11-20T13:16:34.041316027Z"`, `1700000000`), []string{"cannot accept created", "a text"}},
		{"created without a zone", with(t, `34.041316027Z`, `34.041316027`), []string{"cannot accept created", "RFC 3339"}},
		{"created with ten digits", with(t, `34.041316027Z`, `34.0413160271Z`), []string{"cannot accept created", "9 digits"}},
		{"created at second 60", with(t, `34.041316027Z`, `60Z`), []string{"cannot accept created"}},
		{"created in year 1", with(t, `2026-11-20T13:16:34.041316027Z`, `0001-01-01T00:00:00Z`), []string{"cannot accept created", "1677-09-21 to 2262-04-11"}},
		{"created 584 years on", with(t, `2026-11-20`, `2611-06-11`), []string{"cannot accept created", "2262"}},
		{"created on no day", with(t, `2026-11-20`, `2026-11-31`), []string{"cannot accept created"}},

		{"signature not base64", with(t, `MrtYaBDz`, `MrtY*BDz`), []string{"cannot accept signature", "standard base64"}},
		{"signature with a line break", with(t, `MrtYaBDz`, `MrtY\naBDz`), []string{"cannot accept signature"}},
		{"signature without padding", with(t, `UBA==`, `UBA`), []string{"cannot accept signature"}},
		{"signature with loose bits", with(t, `UBA==`, `UBB==`), []string{"cannot accept signature"}},
		{"signature of URLs", with(t, `b3mODrppUBA==`, `b3mODrpp_BA==`), []string{"cannot accept signature"}},
		{"to_delete as text", with(t, `"to_delete":false`, `"to_delete":"false"`), []string{"cannot accept to_delete", "true or false"}},
		{"type as number", with(t, `"type":"volume"`, `"type":1`), []string{"cannot accept type", "a text"}},
		{"user as null", with(t, `"6Y6usApYSWiMRSNvnBFHL6vbSJamoCsjjwJsn6q4mpry"`, `null`), []string{"cannot accept user_id", "null"}},
	} {
		_, err := workload.Decode([]byte(c.body))
		wantError(t, c.name, err, c.want...)
		if err != nil && len(err.Error()) > 400 {
			t.Errorf("%s: the error has %d bytes", c.name, len(err.Error()))
		}
	}
}

func TestDecodeAccepts(t *testing.T) {
	const nanoseconds = 2592000000000000
	for _, c := range []struct{ name, body string }{
		{"white space around", " \n\t" + good + "\r\n"},
		{"escapes", with(t, `"volume"`, `"v\u006flume"`)},
		{"an escaped name", with(t, `"type":"volume"`, `"t\u0079pe":"volume"`)},
		{"escapes in a time", with(t, `"2026-11-20T13:16`, `"2026-11-20T13\u003a16`)},
		{"escapes in base64", with(t, `MrtYaBDzRUX5ZLmdCmfwkUl1FbSl78xNKUHgsuP2GrbWLddw4i8TsQvdSmP4r90pQgbZ5JXkkmzb3mODrppUBA==`, `MrtYaBDzRUX5ZLmdCmfwkUl1FbSl78xNKUHgsuP2GrbWLddw4i8TsQvdSmP4r90pQgbZ5JXkkmzb3mODrppUBA\u003d=`)},
		{"another zone", with(t, `T13:16:34.041316027Z`, `T14:46:34.041316027+01:30`)},
		{"duration with an exponent", with(t, `2592000000000000`, `2.592e15`)},
		{"duration with a fraction", with(t, `2592000000000000`, `2592000000000000.0`)},
		{"no id", with(t, `"id":"",`, ``)},
		{"no to_delete", with(t, `,"to_delete":false`, ``)},
		{"absent as null", with(t, `"to_delete":false`, `"to_delete":false,"deletion":null,"renewal":null,"nonce":null,"version":null`)},
		{"version 1 in words", with(t, `"to_delete":false`, `"to_delete":false,"version":1`)},
	} {
		r, err := workload.Decode([]byte(c.body))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if err := workload.Verify(r); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if r.Duration != nanoseconds || r.Type != workload.TypeVolume || !r.Created.Equal(time.Date(2026, 11, 20, 13, 16, 34, 41316027, time.UTC)) {
			t.Errorf("%s: read %+v", c.name, r)
		}
		if r.Created.Location() != time.UTC {
			t.Errorf("%s: created is in %v", c.name, r.Created.Location())
		}
	}
}

func TestDecodeKeepsData(t *testing.T) {
	for _, text := range []string{
		`{"size":10,"type":"SSD"}`, "{ \"size\" : 10,\n\t\"type\":\"SSD\" }", `{"size":1e1,"type":"\u0053SD"}`,
		`{"a":"<>&\u003c"}`, `[]`, `"x"`, `null`, `0`, `-0.0`, `true`, `{"a":[{},[],"}]\"\\",1]}`, `{"":""}`, `"\ud83d\ude00"`,
	} {
		r := decode(t, data(t, "  "+text+"\n"))
		if string(r.Data) != text {
			t.Errorf("data is %q, want %q", r.Data, text)
		}
	}
}

func TestDecodeLimits(t *testing.T) {
	nested := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	arrays := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	manyNames := func(n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(`,"m`)
			b.WriteString(strings.Repeat("x", i))
			b.WriteString(`":0`)
		}
		return "{" + b.String()[1:] + "}"
	}
	for _, c := range []struct {
		name, body string
		want       string
	}{
		{"as deep as allowed", data(t, nested(workload.MaxDepth-1)), ""},
		{"too deep", data(t, nested(workload.MaxDepth)), "deeper than 32"},
		{"arrays as deep as allowed", data(t, arrays(workload.MaxDepth-1)), ""},
		{"arrays too deep", data(t, arrays(workload.MaxDepth+1)), "deeper than 32"},
		{"a hundred thousand deep", data(t, arrays(100000)), "exceeded max depth"},
		{"members as allowed", data(t, manyNames(workload.MaxMembers)), ""},
		{"too many members", data(t, manyNames(workload.MaxMembers+1)), "cannot accept data: it is an object of more members, must be an object of at most 256"},
		{"data as large as allowed", data(t, `"`+strings.Repeat("x", workload.MaxData-2)+`"`), ""},
		{"data too large", data(t, `"`+strings.Repeat("x", workload.MaxData-1)+`"`), "at most 524288 are allowed"},
		{"document too large", with(t, `"id":""`, `"id":"`+strings.Repeat("x", workload.MaxDocument)+`"`), "at most 1048576 are allowed"},
	} {
		_, err := workload.Decode([]byte(c.body))
		if c.want != "" {
			wantError(t, c.name, err, c.want)
		} else if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// Hostile documents must be cheap to refuse: none of these takes a second.
func TestHostileDocumentsAreCheap(t *testing.T) {
	long := strings.Repeat("k", 1000)
	objects := func(n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(`,{"` + long + `":[{"` + long + `":`)
			b.WriteString(strings.Repeat("1", i%9+1))
			b.WriteString(`}]}`)
		}
		return "[" + b.String()[1:] + "]"
	}
	deepLongNames := strings.Repeat(`{"`+strings.Repeat("n", 10000)+`":`, 28) + `[` + strings.Repeat("1e16,", 20000) + `1]` + strings.Repeat("}", 28)
	for name, body := range map[string]string{
		"open brackets":   strings.Repeat("[", workload.MaxDocument),
		"open braces":     strings.Repeat(`{"":`, workload.MaxDocument/4),
		"backslashes":     `"` + strings.Repeat(`\\`, workload.MaxDocument/2-2) + `"`,
		"digits":          data(t, strings.Repeat("9", 500000)),
		"a long fraction": data(t, "0."+strings.Repeat("9", 500000)),
		"many objects":    data(t, objects(200)),
		"long names":      data(t, deepLongNames),
		"long exponent":   with(t, "2592000000000000", "1e"+strings.Repeat("9", 100000)),
		"long rational":   with(t, "2592000000000000", "0."+strings.Repeat("9", 100000)),
	} {
		start := time.Now()
		r, err := workload.Decode([]byte(body))
		if err == nil {
			err = workload.Verify(r)
		}
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%s: took %v", name, took)
		}
	}
}

func TestFieldErrorsCanBeAsked(t *testing.T) {
	_, err := workload.Decode([]byte(data(t, `{"size":1e300,"type":"SSD"}`)))
	var f *workload.FieldError
	if !errors.As(err, &f) || f.Field != "data.size" || f.Value != "1e300" || f.Allowed != "a number from -9007199254740991 to 9007199254740991" {
		t.Errorf("error is %#v", err)
	}
}

func TestDecodeShownIsOpen(t *testing.T) {
	const more = `"to_delete":false,"next_to_come":{"a":[1]},"result":null`
	r, result, err := workload.DecodeShown([]byte(with(t, `"to_delete":false`, more)))
	if err != nil || result != nil {
		t.Fatalf("%v, %v", result, err)
	}
	if err := workload.Verify(r); err != nil {
		t.Error(err)
	}
	for name, body := range map[string]string{
		"another case":           with(t, `"to_delete":false`, `"to_delete":false,"Data":{}`),
		"data's member twice":    data(t, `{"size":1,"size":2}`),
		"data beyond":            data(t, `{"size":1e300}`),
		"an unknown one twice":   with(t, `"to_delete":false`, `"to_delete":false,"x":1,"x":2`),
		"result that is no one":  with(t, `"to_delete":false`, `"to_delete":false,"result":[]`),
		"a result without an ID": with(t, `"to_delete":false`, `"to_delete":false,"result":{"type":"volume","created":"2026-11-20T13:16:34Z","state":"ok"}`),
	} {
		_, _, err := workload.DecodeShown([]byte(body))
		wantError(t, name, err)
	}
	shown := with(t, `"to_delete":false`, `"to_delete":false,"result":{"id":"1-1","type":"volume","created":"2026-11-20T13:16:34Z","state":"paused","error":"","data":null,"mood":"good"}`)
	if _, result, err := workload.DecodeShown([]byte(shown)); err != nil || result.State != "paused" {
		t.Errorf("a newer explorer's result: %v, %v", result, err)
	}
}

func TestDecodeDraft(t *testing.T) {
	r, err := workload.DecodeDraft([]byte(`{"type":"volume","data":{"size":1,"type":"SSD"}}`))
	if err != nil || r.Type != workload.TypeVolume {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, body := range []string{`{"type":"volume","data":{"size":1,"size":1}}`, `{"typ":"volume"}`, `{"type":"volume","created":"0002-01-01T00:00:00Z"}`, `[]`} {
		_, err := workload.DecodeDraft([]byte(body))
		wantError(t, body, err)
	}
}

func TestDecodeDeletionAndRenewal(t *testing.T) {
	d, err := workload.DecodeDeletion([]byte(`{"created":"2026-11-20T13:16:34.5Z","signature":"AAE="}`))
	if err != nil || d.Created.Nanosecond() != 500000000 || len(d.Signature) != 2 {
		t.Errorf("%+v, %v", d, err)
	}
	n, err := workload.DecodeRenewal([]byte(`{"expires":"2026-11-20T13:16:34.5Z","signature":"AAE="}`))
	if err != nil || n.Expires.Nanosecond() != 500000000 || len(n.Signature) != 2 {
		t.Errorf("%+v, %v", n, err)
	}
	for _, body := range []string{"", "{}", "null", `{"created":"2026-11-20T13:16:34Z","expires":"2026-11-20T13:16:34Z"}`, `{"created":"9999-11-20T13:16:34Z","signature":"AAE="}`, `{"expires":"9999-11-20T13:16:34Z","signature":"AAE="}`} {
		if _, err := workload.DecodeDeletion([]byte(body)); err == nil {
			t.Errorf("%s is a deletion", body)
		}
		if _, err := workload.DecodeRenewal([]byte(body)); err == nil {
			t.Errorf("%s is a renewal", body)
		}
	}
}

func TestDecodeResultRefuses(t *testing.T) {
	const result = `{"type":"volume","id":"1-1","created":"2026-11-20T13:20:48.571786777Z","state":"ok","error":"","data":{"volume_id":"1-1"},"signature":"AAE="}`
	if _, err := workload.DecodeResult([]byte(result)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, old, new, want string }{
		{"unknown state", `"ok"`, `"fine"`, `cannot accept state: it is "fine", must be ok, error, deleted, expired or evicted`},
		{"unknown member", `"id":"1-1",`, `"id":"1-1","mood":1,`, "cannot accept mood"},
		{"another case", `"id":"1-1",`, `"ID":"1-1",`, "in another case"},
		{"no state", `"state":"ok",`, ``, "cannot accept state: it is missing"},
		{"data beyond", `{"volume_id":"1-1"}`, `1e16`, "cannot accept data"},
		{"long error", `"error":""`, `"error":"` + strings.Repeat("x", workload.MaxErrorText+1) + `"`, "at most 65536 bytes"},
		{"error as null and number", `"error":""`, `"error":7`, "cannot accept error"},
		{"sequence as text", `"signature"`, `"sequence":"1","signature"`, "cannot accept sequence"},
		{"hash not base64", `"signature"`, `"reservation_hash":"00ff-","signature"`, "cannot accept reservation_hash"},
	} {
		if !strings.Contains(result, c.old) {
			t.Fatalf("%s: nothing to replace", c.name)
		}
		_, err := workload.DecodeResult([]byte(strings.Replace(result, c.old, c.new, 1)))
		wantError(t, c.name, err, c.want)
	}
}
