package workload_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/workload"
)

func TestReservationsAsRecorded(t *testing.T) {
	for _, name := range recordedNames() {
		t.Run(name, func(t *testing.T) {
			v := readRecorded(t, name)
			r := decode(t, v.Post.Request)
			if string(r.Data) != v.Data {
				t.Errorf("data is %s, want %s", r.Data, v.Data)
			}
			if r.DocumentVersion() != workload.V1 {
				t.Errorf("version is %d, want 1", r.DocumentVersion())
			}
			signed, err := r.SigningBytes()
			if err != nil || hex.EncodeToString(signed) != v.Signed {
				t.Errorf("signed bytes are %x, %v, want %s", signed, err, v.Signed)
			}
			if got := hex.EncodeToString(r.Signature); got != v.Signature {
				t.Errorf("signature is %s, want %s", got, v.Signature)
			}
			if r.User != testKey(t, v.User).ID() || r.NodeID != testKey(t, v.Node).ID() {
				t.Errorf("it is from %s for %s", r.User, r.NodeID)
			}
			if err := workload.Verify(r); err != nil {
				t.Error(err)
			}
			if err := workload.Validate(r); err != nil {
				t.Error(err)
			}
			again, err := workload.Encode(r)
			if err != nil || string(again)+"\n" != v.Post.Request {
				t.Errorf("encoded %s, %v, want %s", again, err, v.Post.Request)
			}
			if v.Draft != "" {
				if _, err := workload.DecodeDraft([]byte(v.Draft)); err != nil {
					t.Errorf("draft: %v", err)
				}
			}
		})
	}
}

// Signing a recorded document again gives the recorded signature: it is plain ed25519.
func TestSignAsRecorded(t *testing.T) {
	for _, name := range recordedNames() {
		v := readRecorded(t, name)
		r := decode(t, v.Post.Request)
		r.Version, r.Signature, r.User = workload.V1, nil, ""
		if err := r.Sign(testKey(t, v.User).Private()); err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(r.Signature); got != v.Signature || len(r.Nonce) != 0 {
			t.Errorf("%s: signature is %s, want %s; nonce %x", name, got, v.Signature, r.Nonce)
		}
	}
}

func TestShownReservationsAsRecorded(t *testing.T) {
	shown := 0
	for _, name := range recordedNames() {
		v := readRecorded(t, name)
		for _, body := range []string{v.Before.Response, v.After.Response} {
			if body == "" {
				continue
			}
			shown++
			r, result, err := workload.DecodeShown([]byte(body))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := workload.Verify(r); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if result != nil {
				if err := workload.VerifyResultV1(result, r.NodeID); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			if _, err := workload.Decode([]byte(body)); err == nil {
				t.Errorf("%s: result is taken for a member that somebody may push", name)
			}
			again, err := workload.EncodeShown(r, result)
			if err != nil {
				t.Fatal(err)
			}
			if got := string(again) + "\n"; got != body {
				t.Errorf("%s: encoded %s, want %s", name, got, body)
			}
		}
	}
	if shown < 20 {
		t.Errorf("only %d answers are recorded", shown)
	}
}

func TestResultsAsRecorded(t *testing.T) {
	var v struct {
		By      string `json:"signed_by"`
		Vectors []struct {
			ID        string
			Type      workload.Type
			Signed    string `json:"signed_bytes_hex"`
			Signature string `json:"signature_hex"`
			Body      string `json:"put_body"`
		}
	}
	readJSON(t, "v1/results.json", &v)
	if len(v.Vectors) < 11 {
		t.Fatalf("there are %d results", len(v.Vectors))
	}
	for _, c := range v.Vectors {
		r, err := workload.DecodeResult([]byte(c.Body))
		if err != nil {
			t.Fatalf("%s: %v", c.ID, err)
		}
		signed, err := r.Bytes()
		if err != nil || hex.EncodeToString(signed) != c.Signed {
			t.Errorf("%s: signed bytes are %x, %v, want %s", c.ID, signed, err, c.Signed)
		}
		if got := hex.EncodeToString(r.Signature); got != c.Signature || r.ID != c.ID || r.Type != c.Type {
			t.Errorf("%s: read %s %s %s", c.ID, r.ID, r.Type, got)
		}
		if err := workload.VerifyResultV1(r, testKey(t, v.By).ID()); err != nil {
			t.Errorf("%s: %v", c.ID, err)
		}
		if workload.VerifyResultV1(r, testKey(t, "node2").ID()) == nil {
			t.Errorf("%s: another node's key verifies it", c.ID)
		}
		if err := workload.VerifyResult(r, testKey(t, v.By).ID(), workload.Hash{}); err == nil {
			t.Errorf("%s: it is taken for a version 2 result", c.ID)
		}
		again, err := workload.EncodeResult(r)
		if err != nil || string(again)+"\n" != c.Body {
			t.Errorf("%s: encoded %s, %v, want %s", c.ID, again, err, c.Body)
		}
	}
}

func TestResultPutsAsRecorded(t *testing.T) {
	for _, name := range recordedNames() {
		v := readRecorded(t, name)
		if v.Result.Put.Request == "" {
			continue
		}
		r, err := workload.DecodeResult([]byte(v.Result.Put.Request))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		signed, err := r.Bytes()
		if err != nil || hex.EncodeToString(signed) != v.Result.Signed || hex.EncodeToString(r.Signature) != v.Result.Signature {
			t.Errorf("%s: signed bytes are %x, %v, want %s", name, signed, err, v.Result.Signed)
		}
		if err := workload.VerifyResultV1(r, testKey(t, v.Result.By).ID()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSecretsAsRecorded(t *testing.T) {
	opened := 0
	for _, name := range recordedNames() {
		for field, raw := range readRecorded(t, name).Secrets {
			var list []recordedSecret
			if json.Unmarshal(raw, &list) != nil {
				list = make([]recordedSecret, 1)
				if err := json.Unmarshal(raw, &list[0]); err != nil {
					t.Fatal(err)
				}
			}
			for _, s := range list {
				opened++
				plain, err := workload.OpenSecretV1(testKey(t, s.Recipient).Open, s.Ciphertext)
				if err != nil || string(plain) != s.Plaintext {
					t.Errorf("%s %s: opened %q, %v, want %q", name, field, plain, err, s.Plaintext)
				}
				user := testKey(t, "user").ID()
				_, err = workload.OpenSecret(testKey(t, s.Recipient).Open, user, workload.TypeZDB, field, s.Ciphertext)
				wantError(t, name+" "+field, err, "isn't bound")
			}
		}
	}
	if opened != 9 {
		t.Errorf("%d secrets were opened, want 9", opened)
	}
}

func TestBoxesThatMustBeRefused(t *testing.T) {
	var v struct {
		Refused []string `json:"must_be_refused_not_panic"`
	}
	readJSON(t, "v1/encryption.json", &v)
	if len(v.Refused) != 7 {
		t.Fatalf("there are %d boxes", len(v.Refused))
	}
	k := testKey(t, "node1")
	for _, box := range v.Refused {
		_, err := workload.OpenSecretV1(k.Open, box)
		wantError(t, box, err, "cannot open secret")
		_, err = workload.OpenSecret(k.Open, k.ID(), workload.TypeZDB, "password", box)
		wantError(t, box, err, "cannot open secret password")
	}
}

func TestPollAnswersAsRecorded(t *testing.T) {
	var v map[string]exchange
	readJSON(t, "v1/http_poll.json", &v)
	documents := 0
	for name, e := range v {
		var list []json.RawMessage
		if err := json.Unmarshal([]byte(e.Response), &list); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, body := range list {
			documents++
			r, _, err := workload.DecodeShown(body)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if err := workload.Verify(r); err != nil {
				t.Errorf("%s %s: %v", name, r.ID, err)
			}
			if err := workload.Validate(r); err != nil && !strings.Contains(err.Error(), "duration") {
				t.Errorf("%s %s: %v", name, r.ID, err)
			}
		}
	}
	if len(v) != 5 || documents < 15 {
		t.Errorf("%d documents in %d answers", documents, len(v))
	}
}

// A deletion leaves no trace in a reservation as the seed's explorer shows it but
// to_delete, which nobody signed.
func TestDeletedReservationAsRecorded(t *testing.T) {
	var v map[string]exchange
	readJSON(t, "v1/http_delete.json", &v)
	for _, name := range []string{"get_after_delete", "get_after_deleted"} {
		r, result, err := workload.DecodeShown([]byte(v[name].Response))
		if err != nil || !r.ToDelete || r.Deletion != nil || result == nil {
			t.Fatalf("%s: %+v, %v", name, r, err)
		}
		if err := workload.Verify(r); err != nil {
			t.Error(err)
		}
		wantError(t, name, workload.VerifyDeletion(r), "there is none")
	}
}

func TestFilesOfTheSeedsStore(t *testing.T) {
	files, err := os.ReadDir("testdata/v1/fsstore")
	if err != nil || len(files) != 7 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		content, err := os.ReadFile("testdata/v1/fsstore/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		body, ok := bytes.CutPrefix(content, []byte(`"1.0.0"`))
		if !ok {
			t.Fatalf("%s has no version", f.Name())
		}
		r, err := workload.Decode(body)
		if err != nil || r.ID != f.Name() {
			t.Fatalf("%s: %v", f.Name(), err)
		}
		if err := workload.Verify(r); err != nil {
			t.Error(err)
		}
		if err := workload.Validate(r); err != nil {
			t.Error(err)
		}
	}
}
