package workload_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/croft-edge/croft/pkg/workload"
)

func TestEncodeKeepsData(t *testing.T) {
	for _, text := range []string{"{ \"size\":10,\n\t\"type\":\"SSD\" }", `{"a":"<>&"}`, `{"a":"\u003c"}`, `1e1`, `"\u2028"`} {
		r := &workload.Reservation{Version: workload.V1, NodeID: testKey(t, "node1").ID(), Type: workload.TypeVolume, Data: json.RawMessage(text), Created: time.Unix(1, 5), Duration: 1}
		if err := r.Sign(testKey(t, "user").Private()); err != nil {
			t.Fatal(err)
		}
		body, err := workload.Encode(r)
		if err != nil || !strings.Contains(string(body), `"data":`+text+`,"created"`) {
			t.Fatalf("%s, %v", body, err)
		}
		if err := workload.Verify(decode(t, string(body))); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Why Encode is there: encoding/json's output of a version 1 document doesn't
// verify, as the seed's tools had to learn.
func TestJSONMarshalBreaksVersion1(t *testing.T) {
	r := &workload.Reservation{Version: workload.V1, NodeID: testKey(t, "node1").ID(), Type: workload.TypeContainer, Data: json.RawMessage(`{"env": {"A":"x&y"}}`), Created: time.Unix(1, 0), Duration: 1}
	if err := r.Sign(testKey(t, "user").Private()); err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if workload.Verify(decode(t, string(body))) == nil {
		t.Error("it verifies: Encode isn't needed any more")
	}
}

func TestEncodeHasTheSeedsOrder(t *testing.T) {
	k := testKey(t, "user")
	r := &workload.Reservation{ID: "1-1", NodeID: testKey(t, "node1").ID(), Type: workload.TypeVolume, Data: json.RawMessage(`{"size":1,"type":"SSD"}`), Created: time.Unix(1, 0), Duration: 1, Tag: workload.Tag{"a": "b"}}
	if err := r.Sign(k.Private()); err != nil {
		t.Fatal(err)
	}
	if err := r.SignDeletion(workload.Deletion{Created: time.Unix(2, 0).In(time.FixedZone("x", 3600))}, k.Private()); err != nil {
		t.Fatal(err)
	}
	if err := r.SignRenewal(workload.Renewal{Expires: time.Unix(3, 0)}, k.Private()); err != nil {
		t.Fatal(err)
	}
	body, err := workload.Encode(r)
	if err != nil {
		t.Fatal(err)
	}
	last := -1
	for _, name := range []string{"id", "node_id", "user_id", "type", "data", "created", "duration", "signature", "to_delete", "version", "nonce", "deletion", "renewal"} {
		at := strings.Index(string(body), `"`+name+`":`)
		if at <= last {
			t.Errorf("%s is at %d, after what is at %d", name, at, last)
		}
		last = at
	}
	if !strings.Contains(string(body), `"deletion":{"created":"1970-01-01T00:00:02Z"`) {
		t.Errorf("the deletion's time isn't UTC: %s", body)
	}
	back := decode(t, string(body))
	for _, check := range []func(*workload.Reservation) error{workload.Verify, workload.VerifyDeletion, workload.VerifyRenewal, workload.Validate} {
		if err := check(back); err != nil {
			t.Error(err)
		}
	}
	again, err := workload.Encode(back)
	if err != nil || string(again) != string(body) {
		t.Errorf("encoded again %s, %v, want %s", again, err, body)
	}
}

func TestEncodeRefuses(t *testing.T) {
	for name, data := range map[string]string{"no JSON": `{`, "two values": `{}{}`, "space before": ` {}`, "newline after": "{}\n"} {
		r := &workload.Reservation{ID: "1-1", Data: json.RawMessage(data)}
		_, err := workload.Encode(r)
		wantError(t, name, err, "cannot encode reservation 1-1: data")
		_, err = workload.EncodeResult(&workload.Result{ID: "1-1", Data: json.RawMessage(data)})
		wantError(t, name, err, "cannot encode result 1-1: data")
		_, err = workload.EncodeShown(&workload.Reservation{ID: "1-1"}, &workload.Result{ID: "1-1", Data: json.RawMessage(data)})
		wantError(t, name, err, "cannot encode result 1-1: data")
		wantError(t, name, r.Sign(testKey(t, "user").Private()), "cannot sign reservation: data")
	}
	_, err := workload.Encode(&workload.Reservation{ID: "1-1", Data: json.RawMessage(`{}`), Created: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)})
	wantError(t, "year 10000", err, "created")
}

func TestEncodeResultOfVersion2(t *testing.T) {
	r := &workload.Result{ID: "1-1", Type: workload.TypeVolume, State: workload.StateError, Error: "cannot <do> & \"that\"", Created: time.Unix(1, 0),
		Hash: make([]byte, 32), Birth: "b", Sequence: 1<<53 + 1, NodeID: testKey(t, "node1").ID()}
	message, err := r.SigningBytes()
	if err != nil {
		t.Fatal(err)
	}
	r.Signature = testKey(t, "node1").Sign(message)
	body, err := workload.EncodeResult(r)
	if err != nil {
		t.Fatal(err)
	}
	back, err := workload.DecodeResult(body)
	if err != nil {
		t.Fatal(err)
	}
	if err := workload.VerifyResult(back, r.NodeID, workload.Hash{}); err != nil {
		t.Error(err)
	}
	if back.Sequence != 1<<53+1 || back.Error != r.Error || !strings.Contains(string(body), `"data":null`) {
		t.Errorf("%s became %+v", body, back)
	}
}

func TestErrorText(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"cannot do that", "cannot do that"},
		{"a\xffb", "a\uFFFDb"},
		{strings.Repeat("x", workload.MaxErrorText), strings.Repeat("x", workload.MaxErrorText)},
		{strings.Repeat("x", workload.MaxErrorText+1), strings.Repeat("x", workload.MaxErrorText-3) + "…"},
		{strings.Repeat("é", workload.MaxErrorText), strings.Repeat("é", workload.MaxErrorText/2-2) + "…"},
	} {
		got := workload.ErrorText(c.text)
		if got != c.want || !utf8.ValidString(got) || len(got) > workload.MaxErrorText {
			t.Errorf("%.20q became %.20q of %d bytes", c.text, got, len(got))
		}
		r := &workload.Result{Hash: make([]byte, 32), Error: got, Created: time.Unix(1, 0)}
		if _, err := r.SigningBytes(); err != nil {
			t.Error(err)
		}
	}
	for _, text := range []string{"a\xffb", strings.Repeat("x", workload.MaxErrorText+1)} {
		_, err := (&workload.Result{Hash: make([]byte, 32), Error: text, Created: time.Unix(1, 0)}).SigningBytes()
		wantError(t, "error's text", err, "its error must be UTF-8 of at most 65536 bytes")
	}
}

func TestTag(t *testing.T) {
	if got := (workload.Tag{"b": "2", "a": "1"}).String(); got != "a=1,b=2" {
		t.Errorf("tag is %q", got)
	}
}

func TestStates(t *testing.T) {
	for state, ended := range map[workload.State]bool{"ok": false, "error": false, "deleted": true, "expired": true, "evicted": true} {
		if workload.Ended(state) != ended || !workload.KnownState(state) {
			t.Errorf("%s: ended %v, known %v", state, workload.Ended(state), workload.KnownState(state))
		}
	}
	if workload.KnownState("") || workload.KnownState("OK") {
		t.Error("it knows states that aren't there")
	}
}
