package workload_test

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/workload"
)

func volume(t testing.TB) *workload.Reservation {
	t.Helper()
	r := &workload.Reservation{ID: "1-1", NodeID: testKey(t, "node1").ID(), Type: workload.TypeVolume, Data: json.RawMessage(`{"size":10,"type":"SSD"}`), Created: time.Date(2026, 11, 20, 12, 0, 0, 7, time.UTC), Duration: time.Hour}
	if err := r.Sign(testKey(t, "user").Private()); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSignMakesVersion2(t *testing.T) {
	r := volume(t)
	if r.Version != workload.V2 || len(r.Nonce) != workload.NonceSize || r.User != testKey(t, "user").ID() {
		t.Fatalf("%+v", r)
	}
	if err := workload.Verify(r); err != nil {
		t.Error(err)
	}
	other := volume(t)
	if bytes.Equal(other.Nonce, r.Nonce) {
		t.Error("two reservations have one nonce")
	}
	before, err := r.Hash()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Sign(testKey(t, "user").Private()); err != nil {
		t.Fatal(err)
	}
	if after, err := r.Hash(); err != nil || after != before {
		t.Errorf("signed again, the hash is %x, %v, want %x", after, err, before)
	}
	if h, err := other.Hash(); err != nil || h == before {
		t.Errorf("two requests have one hash, %v", err)
	}
}

func TestSignRefuses(t *testing.T) {
	key := testKey(t, "user").Private()
	for name, change := range map[string]func(r *workload.Reservation){
		"somebody else's": func(r *workload.Reservation) { r.User = testKey(t, "other-user").ID() },
		"version 3":       func(r *workload.Reservation) { r.Version = 3 },
		"short nonce":     func(r *workload.Reservation) { r.Nonce = r.Nonce[:15] },
		"data twice":      func(r *workload.Reservation) { r.Data = json.RawMessage(`{"a":1,"a":1}`) },
		"no data":         func(r *workload.Reservation) { r.Data = nil },
		"large data": func(r *workload.Reservation) {
			r.Data = json.RawMessage(`"` + strings.Repeat("x", workload.MaxData) + `"`)
		},
		"no created":         func(r *workload.Reservation) { r.Created = time.Time{} },
		"version 1, no node": func(r *workload.Reservation) { r.Version, r.NodeID = workload.V1, "" },
	} {
		r := volume(t)
		change(r)
		wantError(t, name, r.Sign(key), "")
	}
	r := volume(t)
	wantError(t, "short key", r.Sign(key[:32]), "32 bytes, must have 64")
	wantError(t, "somebody else's deletion", r.SignDeletion(workload.Deletion{Created: time.Unix(1, 0)}, testKey(t, "other-user").Private()), "user_id")
	wantError(t, "somebody else's renewal", r.SignRenewal(workload.Renewal{Expires: time.Unix(1, 0)}, testKey(t, "other-user").Private()), "user_id")
	wantError(t, "short key", r.SignRenewal(workload.Renewal{Expires: time.Unix(1, 0)}, nil), "0 bytes")
	if r.Deletion != nil || r.Renewal != nil {
		t.Error("what was refused is there")
	}
}

// A change of any part that a version 2 signature covers breaks it.
func TestVersion2Covers(t *testing.T) {
	for name, change := range map[string]func(r *workload.Reservation){
		"node":      func(r *workload.Reservation) { r.NodeID = testKey(t, "node2").ID() },
		"user":      func(r *workload.Reservation) { r.User = testKey(t, "other-user").ID() },
		"type":      func(r *workload.Reservation) { r.Type = workload.TypeZDB },
		"data":      func(r *workload.Reservation) { r.Data = json.RawMessage(`{"size":11,"type":"SSD"}`) },
		"created":   func(r *workload.Reservation) { r.Created = r.Created.Add(1) },
		"duration":  func(r *workload.Reservation) { r.Duration++ },
		"nonce":     func(r *workload.Reservation) { r.Nonce[0]++ },
		"longer":    func(r *workload.Reservation) { r.Nonce = append(r.Nonce, 0) },
		"none":      func(r *workload.Reservation) { r.Nonce = nil },
		"version":   func(r *workload.Reservation) { r.Version = workload.V1 },
		"unsaid":    func(r *workload.Reservation) { r.Version = 0 },
		"future":    func(r *workload.Reservation) { r.Version = 3 },
		"signature": func(r *workload.Reservation) { r.Signature[63] ^= 1 },
		"unsigned":  func(r *workload.Reservation) { r.Signature = nil },
	} {
		r := volume(t)
		change(r)
		wantError(t, name, workload.Verify(r))
	}
	r := volume(t)
	r.ID, r.ToDelete, r.Tag = "2-1", true, workload.Tag{"a": "b"}
	if err := workload.Verify(r); err != nil {
		t.Errorf("what isn't covered breaks it: %v", err)
	}
}

// wrap is 2^64 ns: time.Time.UnixNano is the same for a time and for one that
// much later, so a signature could be claimed to cover both.
func wrap(at time.Time) time.Time { return at.Add(math.MaxInt64).Add(math.MaxInt64).Add(2) }

func TestTimesDontWrapAround(t *testing.T) {
	r, key := volume(t), testKey(t, "user").Private()
	if err := r.SignDeletion(workload.Deletion{Created: r.Created}, key); err != nil {
		t.Fatal(err)
	}
	if err := r.SignRenewal(workload.Renewal{Expires: r.Created}, key); err != nil {
		t.Fatal(err)
	}
	later := wrap(r.Created)
	if later.UnixNano() != r.Created.UnixNano() || later.Year() < 2600 {
		t.Fatalf("%v doesn't wrap", later)
	}
	r.Deletion.Created, r.Renewal.Expires = later, later
	wantError(t, "deletion", workload.VerifyDeletion(r), "deletion.created", "2611", "2262")
	wantError(t, "renewal", workload.VerifyRenewal(r), "renewal.expires", "2611", "2262")
	r.Created = later
	wantError(t, "reservation", workload.Verify(r), "created", "2611", "2262")
	wantError(t, "valid", workload.Validate(r), "created", "2611", "2262")

	r = volume(t)
	result := signedResult(t, r)
	result.Created = wrap(result.Created)
	wantError(t, "result", workload.VerifyResult(result, result.NodeID, hashOf(t, r)), "created", "2262")
}

func hashOf(t testing.TB, r *workload.Reservation) workload.Hash {
	t.Helper()
	h, err := r.Hash()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func signedResult(t testing.TB, r *workload.Reservation) *workload.Result {
	t.Helper()
	h := hashOf(t, r)
	out := &workload.Result{ID: r.ID, Type: r.Type, State: workload.StateOK, Data: json.RawMessage(`{"volume_id":"1-1"}`), Created: time.Unix(2e9, 1), Hash: h[:], Birth: "birth", Sequence: 7, NodeID: r.NodeID}
	message, err := out.SigningBytes()
	if err != nil {
		t.Fatal(err)
	}
	out.Signature = testKey(t, "node1").Sign(message)
	return out
}

func TestResultVersion2Covers(t *testing.T) {
	r := volume(t)
	h := hashOf(t, r)
	if err := workload.VerifyResult(signedResult(t, r), r.NodeID, h); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(x *workload.Result){
		"id":        func(x *workload.Result) { x.ID = "1-2" },
		"type":      func(x *workload.Result) { x.Type = workload.TypeZDB },
		"state":     func(x *workload.Result) { x.State = workload.StateError },
		"error":     func(x *workload.Result) { x.Error = "x" },
		"data":      func(x *workload.Result) { x.Data = nil },
		"created":   func(x *workload.Result) { x.Created = x.Created.Add(1) },
		"birth":     func(x *workload.Result) { x.Birth = "other" },
		"sequence":  func(x *workload.Result) { x.Sequence++ },
		"hash":      func(x *workload.Result) { x.Hash = make([]byte, 32) },
		"no hash":   func(x *workload.Result) { x.Hash = nil },
		"signature": func(x *workload.Result) { x.Signature[0] ^= 1 },
		"moved":     func(x *workload.Result) { x.Birth, x.Data = "", json.RawMessage(`"birth"`) },
	} {
		x := signedResult(t, r)
		change(x)
		wantError(t, name, workload.VerifyResult(x, r.NodeID, h))
	}
	wantError(t, "another node", workload.VerifyResult(signedResult(t, r), testKey(t, "node2").ID(), h), "isn't one of")
	wantError(t, "another reservation", workload.VerifyResult(signedResult(t, r), r.NodeID, hashOf(t, volume(t))), "answers another reservation")
	wantError(t, "as version 1", workload.VerifyResultV1(signedResult(t, r), r.NodeID), "isn't one of")
}

func TestDeletionAndRenewalAreBound(t *testing.T) {
	r, key := volume(t), testKey(t, "user").Private()
	wantError(t, "no deletion", workload.VerifyDeletion(r), "there is none")
	wantError(t, "no renewal", workload.VerifyRenewal(r), "there is none")
	if err := r.SignDeletion(workload.Deletion{Created: r.Created}, key); err != nil {
		t.Fatal(err)
	}
	if err := r.SignRenewal(workload.Renewal{Expires: r.Created}, key); err != nil {
		t.Fatal(err)
	}
	if err := workload.VerifyDeletion(r); err != nil {
		t.Error(err)
	}
	if err := workload.VerifyRenewal(r); err != nil {
		t.Error(err)
	}
	other := volume(t)
	other.Deletion, other.Renewal = r.Deletion, r.Renewal
	wantError(t, "moved deletion", workload.VerifyDeletion(other), "isn't one of")
	wantError(t, "moved renewal", workload.VerifyRenewal(other), "isn't one of")
	// The same time, signed for the other purpose.
	r.Deletion, r.Renewal = &workload.Deletion{Created: r.Renewal.Expires, Signature: r.Renewal.Signature}, &workload.Renewal{Expires: r.Deletion.Created, Signature: r.Deletion.Signature}
	wantError(t, "renewal as deletion", workload.VerifyDeletion(r), "isn't one of")
	wantError(t, "deletion as renewal", workload.VerifyRenewal(r), "isn't one of")
	if r.Expires() != r.Created {
		t.Errorf("expires %v", r.Expires())
	}
}

// Bytes signed for another purpose can't be split into version 1's parts:
// its node ID must be one, and no domain starts as an ID does.
func TestVersion1HoldsNothingElse(t *testing.T) {
	r := volume(t)
	message, err := r.SigningBytes()
	if err != nil {
		t.Fatal(err)
	}
	user := strings.Index(string(message), r.User)
	forged := &workload.Reservation{
		NodeID: string(message[:user]), User: r.User, Type: workload.Type(message[user+len(r.User) : len(message)-1]), Data: json.RawMessage(message[len(message)-1:]),
		Created: r.Created, Duration: r.Duration, Signature: r.Signature,
	}
	if b, err := forged.SigningBytes(); err != nil || !bytes.Equal(b, message) {
		t.Fatalf("the forgery has other bytes: %q, %v", b, err)
	}
	wantError(t, "forged", workload.Verify(forged), "node_id")
}

// A node that answers in version 1 signs an error's text first: that must not make
// it sign another document.
func TestVersion1ResultIsNoOtherDocument(t *testing.T) {
	r := volume(t)
	deletion := workload.Deletion{Created: r.Created}
	message, err := deletion.SigningBytes(hashOf(t, r))
	if err != nil {
		t.Fatal(err)
	}
	result := &workload.Result{ID: "1-1", Error: string(message)}
	_, err = result.Bytes()
	wantError(t, "domain", err, "begins as a signature domain does")
	wantError(t, "verified", workload.VerifyResultV1(result, r.NodeID), "begins as a signature domain does")
	for _, text := range []string{"croft-reservation-v2 is unknown", "cannot read croft-secret-v2\x00", ""} {
		result.Error = text
		if b, err := result.Bytes(); err != nil || string(b) != text+"null" {
			t.Errorf("%q: %q, %v", text, b, err)
		}
	}
}

func TestWeakUsersAreRefused(t *testing.T) {
	r := volume(t)
	r.User = "11111111111111111111111111111111"
	wantError(t, "verify", workload.Verify(r), "weak key")
	wantError(t, "validate", workload.Validate(r), "cannot accept user_id", "an ID")
	r = volume(t)
	r.NodeID = "11111111111111111111111111111111"
	wantError(t, "validate", workload.Validate(r), "cannot accept node_id", "an ID")
	wantError(t, "result", workload.VerifyResult(signedResult(t, r), r.NodeID, hashOf(t, r)), "weak key")
}

func TestExpiry(t *testing.T) {
	r := &workload.Reservation{Created: time.Unix(100, 0), Duration: 10 * time.Second}
	for _, c := range []struct {
		now     int64
		expired bool
	}{{99, false}, {109, false}, {110, true}, {111, true}} {
		if got := r.ExpiredAt(time.Unix(c.now, 0)); got != c.expired {
			t.Errorf("at %d: expired %v", c.now, got)
		}
	}
	if !r.Expired() {
		t.Error("not expired since 1970")
	}
	r.Renewal = &workload.Renewal{Expires: time.Unix(200, 0)}
	if r.ExpiredAt(time.Unix(199, 0)) || !r.ExpiredAt(time.Unix(200, 0)) {
		t.Error("a renewal isn't heeded")
	}
}
