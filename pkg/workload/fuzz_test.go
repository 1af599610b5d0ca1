package workload_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/croft-edge/croft/pkg/workload"
)

// decodeAll does everything with a body that may be done before its signature is
// checked.
func decodeAll(body []byte) {
	for _, decode := range []func([]byte) (*workload.Reservation, error){
		workload.Decode, workload.DecodeDraft,
		func(b []byte) (*workload.Reservation, error) { r, _, err := workload.DecodeShown(b); return r, err },
	} {
		r, err := decode(body)
		if err != nil {
			continue
		}
		_ = workload.Verify(r)
		_ = workload.VerifyDeletion(r)
		_ = workload.VerifyRenewal(r)
		_ = workload.Validate(r)
		for _, t := range workload.Types() {
			r.Type = t
			_ = workload.Validate(r)
		}
		_, _ = workload.DataOf[workload.Kubernetes](r)
		_, _, _ = r.SplitID()
	}
	_, _ = workload.DecodeResult(body)
	_, _ = workload.DecodeDeletion(body)
	_, _ = workload.DecodeRenewal(body)
	_, _ = workload.Canonical(body)
}

// FuzzDecode looks for bodies that panic, that Encode changes, or that a second
// reader reads differently.
func FuzzDecode(f *testing.F) {
	for _, name := range recordedNames() {
		v := readRecorded(f, name)
		f.Add([]byte(v.Post.Request))
		f.Add([]byte(v.After.Response))
		f.Add([]byte(v.Result.Put.Request))
	}
	files, err := filepath.Glob("testdata/v2/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		var v vectorFile
		readFile(f, name, &v)
		for _, c := range append(v.Good, v.Bad...) {
			f.Add([]byte(c.Document))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		decodeAll(body)
		r, err := workload.Decode(body)
		if err != nil {
			return
		}
		if !bytes.Contains(body, r.Data) {
			t.Fatalf("data %s isn't in the body", r.Data)
		}
		again, err := workload.Encode(r)
		if err != nil {
			t.Fatal(err)
		}
		back, err := workload.Decode(again)
		if err != nil {
			t.Fatalf("%v\n%s", err, again)
		}
		if (workload.Verify(r) == nil) != (workload.Verify(back) == nil) {
			t.Fatalf("signed and not signed: %s", again)
		}
		var std workload.Reservation
		if err := json.Unmarshal(again, &std); err != nil || std.User != r.User || std.NodeID != r.NodeID || !bytes.Equal(std.Data, r.Data) {
			t.Fatalf("encoding/json reads %+v, %v", std, err)
		}
	})
}

func readFile(t testing.TB, name string, to any) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, to); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}
