package workload_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// anyReservation is a signed reservation with any data.
func anyReservation(key sign.KeyPair, version int) *rapid.Generator[*workload.Reservation] {
	return rapid.Custom(func(t *rapid.T) *workload.Reservation {
		r := &workload.Reservation{
			ID: rapid.SampledFrom([]string{"", "1-1", "18446744073709551615-1"}).Draw(t, "id"), NodeID: key.ID(), Version: version,
			Type: rapid.SampledFrom(workload.Types()).Draw(t, "type"), Data: json.RawMessage(anyJSON(3).Draw(t, "data")),
			Created: time.Unix(0, rapid.Int64().Draw(t, "created")), Duration: time.Duration(rapid.Int64().Draw(t, "duration")),
			ToDelete: rapid.Bool().Draw(t, "to_delete"),
		}
		if err := r.Sign(key.Private()); err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(t, "deletion") {
			if err := r.SignDeletion(workload.Deletion{Created: time.Unix(0, rapid.Int64().Draw(t, "deleted"))}, key.Private()); err != nil {
				t.Fatal(err)
			}
		}
		if rapid.Bool().Draw(t, "renewal") {
			if err := r.SignRenewal(workload.Renewal{Expires: time.Unix(0, rapid.Int64().Draw(t, "expires"))}, key.Private()); err != nil {
				t.Fatal(err)
			}
		}
		return r
	})
}

func verifyAll(r *workload.Reservation) error {
	if err := workload.Verify(r); err != nil {
		return err
	}
	if r.Deletion != nil {
		if err := workload.VerifyDeletion(r); err != nil {
			return err
		}
	}
	if r.Renewal != nil {
		return workload.VerifyRenewal(r)
	}
	return nil
}

// Whatever a JSON library does to a version 2 document, its signatures hold
// and its hash is the same.
func TestVersion2SurvivesRoundTrips(t *testing.T) {
	key := testKey(t, "user")
	rapid.Check(t, func(t *rapid.T) {
		r := anyReservation(key, workload.V2).Draw(t, "reservation")
		before, err := r.Hash()
		if err != nil {
			t.Fatal(err)
		}
		body, err := workload.Encode(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, form := range []string{rewrite(t, body), reencode(t, body), indented(t, body)} {
			back, err := workload.Decode([]byte(form))
			if err != nil {
				t.Fatalf("%v\n%s", err, form)
			}
			if err := verifyAll(back); err != nil {
				t.Fatalf("%v\n%s", err, form)
			}
			if after, err := back.Hash(); err != nil || after != before {
				t.Fatalf("the hash is %x, %v\n%s", after, err, form)
			}
		}
	})
}

// reencode imitates a program that reads a document into a map: HTML
// escapes, members by name.
func reencode(t *rapid.T, body []byte) string {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func indented(t *rapid.T, body []byte) string {
	var out bytes.Buffer
	if err := json.Indent(&out, body, "\t", "  "); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// A version 1 signature is over the bytes of data as sent: any other
// form of the same data breaks it, and nothing else does.
func TestVersion1IsOverTheBytesSent(t *testing.T) {
	key := testKey(t, "user")
	rapid.Check(t, func(t *rapid.T) {
		r := anyReservation(key, workload.V1).Draw(t, "reservation")
		body, err := workload.Encode(r)
		if err != nil {
			t.Fatal(err)
		}
		back, err := workload.Decode([]byte(rewrite(t, body)))
		if err != nil {
			t.Fatal(err)
		}
		if same := bytes.Equal(back.Data, r.Data); same != (workload.Verify(back) == nil) {
			t.Fatalf("data was %s, is %s: %v", r.Data, back.Data, workload.Verify(back))
		}
		back.Data = r.Data
		if err := verifyAll(back); err != nil {
			t.Fatal(err)
		}
	})
}

func TestEncodeIsStable(t *testing.T) {
	key := testKey(t, "user")
	rapid.Check(t, func(t *rapid.T) {
		r := anyReservation(key, rapid.SampledFrom([]int{workload.V1, workload.V2}).Draw(t, "version")).Draw(t, "reservation")
		once, err := workload.Encode(r)
		if err != nil {
			t.Fatal(err)
		}
		back, err := workload.Decode(once)
		if err != nil {
			t.Fatal(err)
		}
		twice, err := workload.Encode(back)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%s became %s, %v", once, twice, err)
		}
		again, err := workload.Decode(twice)
		if err != nil || !reflect.DeepEqual(back, again) {
			t.Fatalf("%+v became %+v, %v", back, again, err)
		}
		if !bytes.Equal(back.Data, r.Data) {
			t.Fatalf("data %s became %s", r.Data, back.Data)
		}
		var std workload.Reservation
		if err := json.Unmarshal(once, &std); err != nil || !reflect.DeepEqual(&std, back) {
			t.Fatalf("encoding/json reads %+v, %v, want %+v", std, err, back)
		}
	})
}

// parts draws texts of few characters, so that two lists of them often are
// the same when concatenated.
func parts(t *rapid.T, name string) [4]string {
	var out [4]string
	for i := range out {
		out[i] = rapid.StringMatching(`[a\x00\x01]{0,3}`).Draw(t, name)
	}
	return out
}

// No signed bytes can be split in two ways: other parts, other bytes.
func TestSignedBytesAreInjective(t *testing.T) {
	bytesOf := func(t *rapid.T, p [4]string) string {
		r := &workload.Reservation{Version: workload.V2, NodeID: p[0], User: p[1], Type: workload.Type(p[2]), Nonce: []byte(p[3]), Data: json.RawMessage(`1`), Created: time.Unix(0, 0)}
		b, err := r.SigningBytes()
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	resultBytes := func(t *rapid.T, p [4]string) string {
		r := &workload.Result{ID: p[0], Type: workload.Type(p[1]), Error: p[2], Birth: p[3], Hash: make([]byte, 32), Created: time.Unix(0, 0)}
		b, err := r.SigningBytes()
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := parts(t, "a"), parts(t, "b")
		if rapid.Bool().Draw(t, "shift") {
			// The same text, cut elsewhere.
			b = a
			b[0], b[1] = a[0]+a[1], ""
		}
		for name, f := range map[string]func(*rapid.T, [4]string) string{"reservation": bytesOf, "result": resultBytes} {
			if same := f(t, a) == f(t, b); same != (a == b) {
				t.Fatalf("%s: %q and %q have the same bytes", name, a, b)
			}
		}
		if same := workload.NetworkKey(a[0], a[1]) == workload.NetworkKey(b[0], b[1]); same != (a[0] == b[0] && a[1] == b[1]) {
			t.Fatalf("%q and %q have one key", a[:2], b[:2])
		}
	})
}

// Data that validates in one form does so in any, and gives the same typed data.
func TestValidationSeesTheCanonicalForm(t *testing.T) {
	recorded := make([]*workload.Reservation, 0, len(recordedNames()))
	for _, name := range recordedNames() {
		recorded = append(recorded, decode(t, readRecorded(t, name).Post.Request))
	}
	rapid.Check(t, func(t *rapid.T) {
		r := *rapid.SampledFrom(recorded).Draw(t, "reservation")
		before := r
		r.Data = json.RawMessage(strings.TrimSpace(rewrite(t, r.Data)))
		if err := workload.Validate(&r); err != nil {
			t.Fatalf("%v\n%s", err, r.Data)
		}
		if a, b := typed(t, &before), typed(t, &r); !reflect.DeepEqual(a, b) {
			t.Fatalf("%+v became %+v", a, b)
		}
	})
}

func typed(t *rapid.T, r *workload.Reservation) any {
	var out any
	var err error
	switch r.Type {
	case workload.TypeContainer:
		out, err = workload.DataOf[workload.Container](r)
	case workload.TypeVolume:
		out, err = workload.DataOf[workload.Volume](r)
	case workload.TypeNetwork:
		out, err = workload.DataOf[workload.Network](r)
	case workload.TypeZDB:
		out, err = workload.DataOf[workload.ZDB](r)
	case workload.TypeKubernetes:
		out, err = workload.DataOf[workload.Kubernetes](r)
	case workload.TypeDebug:
		out, err = workload.DataOf[workload.Debug](r)
	}
	if err != nil || out == nil {
		t.Fatalf("%s: %v", r.Type, err)
	}
	return out
}

func TestNothingPanicsOnAnyBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		decodeAll(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		decodeAll([]byte(anyJSON(4).Draw(t, "json")))
		decodeAll([]byte(strings.Replace(good, `{"size":10,"type":"SSD"}`, anyJSON(4).Draw(t, "data"), 1)))
	})
}
