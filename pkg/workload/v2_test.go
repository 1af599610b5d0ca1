package workload_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/workload"
)

var update = flag.Bool("update", false, "write testdata/v2 anew; a change of it is a change of the wire format")

// vectorFile is a file below testdata/v2; docs/wire-formats.md describes it.
type vectorFile struct {
	About string   `json:"about"`
	Good  []vector `json:"good"`
	Bad   []vector `json:"bad"`
}

// vector is one document or one sealed secret.
type vector struct {
	Name string `json:"name"`
	// Stage and Reason are of bad ones: the first check that refuses it, and the reason.
	Stage  string `json:"stage,omitempty"`
	Reason string `json:"reason,omitempty"`

	// Document is the body, byte for byte.
	Document string `json:"document,omitempty"`
	// DataCanonical and the following members are of good documents.
	DataCanonical string `json:"data_canonical,omitempty"`
	SignedBytes   string `json:"signed_bytes_hex,omitempty"`
	Hash          string `json:"hash_hex,omitempty"`
	Signature     string `json:"signature_base64,omitempty"`

	// NodeID and ReservationHash are a result's expected ones.
	NodeID          string `json:"node_id,omitempty"`
	ReservationHash string `json:"reservation_hash_hex,omitempty"`

	// Secret is the input and the result of opening a secret.
	Secret *secretVector `json:"secret,omitempty"`
}

type secretVector struct {
	Node      string        `json:"node"`
	User      string        `json:"user_id"`
	Type      workload.Type `json:"type"`
	Path      string        `json:"field_path"`
	Box       string        `json:"box_hex"`
	Ephemeral string        `json:"ephemeral_secret_hex,omitempty"`
	Plaintext string        `json:"plaintext_hex,omitempty"`
	Secret    string        `json:"secret_hex"`
}

// The generator's output is the committed one: neither the format nor the
// vectors change unnoticed.
func TestVectorsAreCurrent(t *testing.T) {
	for name, v := range makeVectors(t) {
		var out bytes.Buffer
		enc := json.NewEncoder(&out)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(v); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", "v2", name+".json")
		if *update {
			if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(file, out.Bytes()) {
			t.Errorf("%s isn't what the generator makes", path)
		}
	}
}

func readVectors(t *testing.T, name string) vectorFile {
	t.Helper()
	var out vectorFile
	readFile(t, filepath.Join("testdata", "v2", name+".json"), &out)
	return out
}

func TestBadVectorsAreMany(t *testing.T) {
	count := 0
	for _, name := range []string{"reservation", "reference", "deletion", "renewal", "result", "secret"} {
		v := readVectors(t, name)
		if len(v.Good) == 0 || len(v.Bad) == 0 {
			t.Errorf("%s has %d good and %d bad ones", name, len(v.Good), len(v.Bad))
		}
		count += len(v.Bad)
		seen := map[string]bool{}
		for _, c := range append(v.Good, v.Bad...) {
			if seen[c.Name] {
				t.Errorf("%s: %q is there twice", name, c.Name)
			}
			seen[c.Name] = true
		}
		for _, c := range v.Bad {
			if c.Stage == "" || c.Reason == "" {
				t.Errorf("%s: %q says no stage or reason", name, c.Name)
			}
		}
	}
	if count < 60 {
		t.Errorf("there are %d bad ones", count)
	}
}

// stages runs the checks of a document in their order and returns the name of
// the one that refuses it.
func stages(checks ...func() (string, error)) (string, error) {
	for _, check := range checks {
		if stage, err := check(); err != nil {
			return stage, err
		}
	}
	return "", nil
}

func wantStage(t *testing.T, c vector, stage string, err error) {
	t.Helper()
	if stage != c.Stage {
		t.Errorf("%s: refused by %q (%v), want %q: %s", c.Name, stage, err, c.Stage, c.Reason)
	}
	if err != nil {
		wantError(t, c.Name, err)
	}
}

// judge runs the checks of a reservation, then more for its deletion or renewal.
func judge(document string, more func(*workload.Reservation) error) (*workload.Reservation, string, error) {
	var r *workload.Reservation
	stage, err := stages(
		func() (_ string, err error) { r, err = workload.Decode([]byte(document)); return "decode", err },
		func() (string, error) { return "verify", workload.Verify(r) },
		func() (string, error) { return "verify", more(r) },
		func() (string, error) { return "validate", workload.Validate(r) },
	)
	return r, stage, err
}

func nothingMore(*workload.Reservation) error { return nil }

func TestReservationVectors(t *testing.T) { checkReservations(t, readVectors(t, "reservation")) }

// References by hash name hashes of the same file.
func TestReferenceVectors(t *testing.T) {
	v := readVectors(t, "reference")
	checkReservations(t, v)
	volume, network, container := v.Good[0], v.Good[1], v.Good[2]
	c, err := workload.DataOf[workload.Container](decode(t, container.Document))
	if err != nil || len(c.Mounts) != 1 || c.Mounts[0].VolumeHash != volume.Hash || c.Network.NetworkHash != network.Hash {
		t.Errorf("the container refers to %+v and %+v, %v", c.Mounts, c.Network, err)
	}
	k, err := workload.DataOf[workload.Kubernetes](decode(t, v.Good[4].Document))
	if err != nil || k.NetworkHash != network.Hash {
		t.Errorf("the Kubernetes VM refers to %q, %v", k.NetworkHash, err)
	}
}

func checkReservations(t *testing.T, v vectorFile) {
	t.Helper()
	for _, c := range append(v.Good, v.Bad...) {
		r, stage, err := judge(c.Document, nothingMore)
		wantStage(t, c, stage, err)
		if c.Stage != "" || err != nil {
			continue
		}
		canonical, err := workload.Canonical(r.Data)
		if err != nil || string(canonical) != c.DataCanonical {
			t.Errorf("%s: canonical data is %s, %v, want %s", c.Name, canonical, err, c.DataCanonical)
		}
		signed, err := r.SigningBytes()
		if err != nil || hex.EncodeToString(signed) != c.SignedBytes {
			t.Errorf("%s: signed bytes are %x, %v, want %s", c.Name, signed, err, c.SignedBytes)
		}
		if h := hashOf(t, r); hex.EncodeToString(h[:]) != c.Hash {
			t.Errorf("%s: hash is %x, want %s", c.Name, h, c.Hash)
		}
		if got := base64.StdEncoding.EncodeToString(r.Signature); got != c.Signature {
			t.Errorf("%s: signature is %s, want %s", c.Name, got, c.Signature)
		}
	}
}

func TestDeletionVectors(t *testing.T) {
	v := readVectors(t, "deletion")
	for _, c := range append(v.Good, v.Bad...) {
		r, stage, err := judge(c.Document, workload.VerifyDeletion)
		wantStage(t, c, stage, err)
		if c.Stage != "" || err != nil {
			continue
		}
		h := hashOf(t, r)
		signed, err := r.Deletion.SigningBytes(h)
		if err != nil || hex.EncodeToString(signed) != c.SignedBytes || hex.EncodeToString(h[:]) != c.Hash {
			t.Errorf("%s: signed bytes are %x, %v, want %s", c.Name, signed, err, c.SignedBytes)
		}
	}
}

func TestRenewalVectors(t *testing.T) {
	v := readVectors(t, "renewal")
	for _, c := range append(v.Good, v.Bad...) {
		r, stage, err := judge(c.Document, workload.VerifyRenewal)
		wantStage(t, c, stage, err)
		if c.Stage != "" || err != nil {
			continue
		}
		h := hashOf(t, r)
		signed, err := r.Renewal.SigningBytes(h)
		if err != nil || hex.EncodeToString(signed) != c.SignedBytes || hex.EncodeToString(h[:]) != c.Hash {
			t.Errorf("%s: signed bytes are %x, %v, want %s", c.Name, signed, err, c.SignedBytes)
		}
	}
}

func TestResultVectors(t *testing.T) {
	v := readVectors(t, "result")
	for _, c := range append(v.Good, v.Bad...) {
		var h workload.Hash
		if n, err := hex.Decode(h[:], []byte(c.ReservationHash)); err != nil || n != len(h) {
			t.Fatalf("%s: hash %q", c.Name, c.ReservationHash)
		}
		var r *workload.Result
		stage, err := stages(
			func() (_ string, err error) { r, err = workload.DecodeResult([]byte(c.Document)); return "decode", err },
			func() (string, error) { return "verify", workload.VerifyResult(r, c.NodeID, h) },
		)
		wantStage(t, c, stage, err)
		if c.Stage != "" || err != nil {
			continue
		}
		r.NodeID = c.NodeID
		signed, err := r.SigningBytes()
		if err != nil || hex.EncodeToString(signed) != c.SignedBytes {
			t.Errorf("%s: signed bytes are %x, %v, want %s", c.Name, signed, err, c.SignedBytes)
		}
	}
}

func TestSecretVectors(t *testing.T) {
	v := readVectors(t, "secret")
	for _, c := range append(v.Good, v.Bad...) {
		s := c.Secret
		plain, err := workload.OpenSecret(testKey(t, s.Node).Open, s.User, s.Type, s.Path, s.Box)
		if c.Stage != "" {
			wantError(t, c.Name, err, "cannot open secret")
			continue
		}
		if err != nil || hex.EncodeToString(plain) != s.Secret {
			t.Errorf("%s: opened %x, %v, want %s", c.Name, plain, err, s.Secret)
		}
		box, err := hex.DecodeString(s.Box)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := testKey(t, s.Node).Open(box)
		if err != nil || hex.EncodeToString(whole) != s.Plaintext || !strings.HasPrefix(string(whole), "croft-secret-v2\x00") {
			t.Errorf("%s: the box holds %x, %v, want %s", c.Name, whole, err, s.Plaintext)
		}
	}
}

// The keys of the vectors can be read too.
func TestVectorKeys(t *testing.T) {
	var keys map[string]vectorKey
	readFile(t, "testdata/v2/keys.json", &keys)
	if len(keys) != 4 {
		t.Fatalf("there are %d keys", len(keys))
	}
	for name, k := range keys {
		if got := testKey(t, name); got.ID() != k.ID || hex.EncodeToString(got.Seed()) != k.Seed {
			t.Errorf("%s: %+v", name, k)
		}
	}
}
