package verify_test

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/store"
	"github.com/croft-edge/croft/provision/verify"
)

func key(n byte) ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = n
	return ed25519.NewKeyFromSeed(seed)
}

func id(n byte) string { return sign.ID(key(n).Public().(ed25519.PublicKey)) }

// The user's key, another user's, this node's and another node's.
const (
	user byte = iota
	otherUser
	thisNode
	otherNode
)

func now() time.Time { return time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC) }

// draft is a good reservation before it is signed.
func draft() *workload.Reservation {
	return &workload.Reservation{
		ID: "5-1", NodeID: id(thisNode), Type: workload.TypeVolume, Data: json.RawMessage(`{"size":1,"type":"SSD"}`),
		Created: now().Add(-time.Hour), Duration: 24 * time.Hour,
	}
}

// signed signs a draft after it was edited.
func signed(t testing.TB, edit func(r *workload.Reservation)) *workload.Reservation {
	t.Helper()
	r := draft()
	if edit != nil {
		edit(r)
	}
	if err := r.Sign(key(user)); err != nil {
		t.Fatal(err)
	}
	return r
}

func policy() verify.Policy {
	return verify.Policy{
		NodeID: id(thisNode), MaxDuration: verify.DefaultMaxDuration, MaxFuture: verify.DefaultMaxFuture,
		Birth: now().Add(-48 * time.Hour),
	}
}

func wantErr(t *testing.T, name string, err error, kind node.Kind, says string) {
	t.Helper()
	if node.KindOf(err) != kind {
		t.Errorf("%s: %v (%s), want %q", name, err, node.KindOf(err), kind)
		return
	}
	if err != nil && (!strings.HasPrefix(err.Error(), "cannot ") || !strings.Contains(err.Error(), says)) {
		t.Errorf("%s: the error is %q, must say %q", name, err, says)
	}
}

// Only a reservation that its user signed for this node is authentic.
func TestAuthentic(t *testing.T) {
	for _, tt := range []struct {
		name string
		// sign edits before the signature, tamper after it.
		sign, tamper func(r *workload.Reservation)
		kind         node.Kind
		says         string
	}{
		{name: "signed by its user for this node"},
		{name: "under any ID, which isn't signed", tamper: func(r *workload.Reservation) { r.ID = "9-1" }},
		{name: "version 1, whether accepted or not", sign: func(r *workload.Reservation) { r.Version = workload.V1 }},
		{name: "not signed", tamper: func(r *workload.Reservation) { r.Signature = nil }, kind: node.Invalid, says: "signature"},
		{name: "a signature that is cut", tamper: func(r *workload.Reservation) { r.Signature = r.Signature[:63] }, kind: node.Invalid, says: "signature"},
		{name: "a flipped bit in the signature", tamper: func(r *workload.Reservation) { r.Signature[7] ^= 1 }, kind: node.Invalid, says: "signature"},
		{name: "more data", tamper: func(r *workload.Reservation) { r.Data = json.RawMessage(`{"size":1000,"type":"SSD"}`) }, kind: node.Invalid, says: "signature"},
		{name: "another type", tamper: func(r *workload.Reservation) { r.Type = workload.TypeZDB }, kind: node.Invalid, says: "signature"},
		{name: "longer", tamper: func(r *workload.Reservation) { r.Duration++ }, kind: node.Invalid, says: "signature"},
		{name: "later", tamper: func(r *workload.Reservation) { r.Created = r.Created.Add(1) }, kind: node.Invalid, says: "signature"},
		{name: "in another's name", tamper: func(r *workload.Reservation) { r.User = id(otherUser) }, kind: node.Invalid, says: "signature"},
		{name: "a user who is no key", tamper: func(r *workload.Reservation) { r.User = "me" }, kind: node.Invalid, says: "ID"},
		{name: "another nonce", tamper: func(r *workload.Reservation) { r.Nonce = make([]byte, 16) }, kind: node.Invalid, says: "signature"},
		{name: "version 2 sold as version 1", tamper: func(r *workload.Reservation) { r.Version = 0 }, kind: node.Invalid, says: "signature"},
		{name: "a version that isn't there yet", tamper: func(r *workload.Reservation) { r.Version = 3 }, kind: node.Invalid, says: "version"},
		{name: "for another node", sign: func(r *workload.Reservation) { r.NodeID = id(otherNode) }, kind: node.Refused, says: "node_id"},
		{name: "moved here from another node", sign: func(r *workload.Reservation) { r.NodeID = id(otherNode) },
			tamper: func(r *workload.Reservation) { r.NodeID = id(thisNode) }, kind: node.Invalid, says: "signature"},
		{name: "an ID like a path", tamper: func(r *workload.Reservation) { r.ID = "../../etc/passwd" }, kind: node.Invalid, says: "ID"},
		{name: "no ID", tamper: func(r *workload.Reservation) { r.ID = "" }, kind: node.Invalid, says: "ID"},
		{name: "a megabyte of data", tamper: func(r *workload.Reservation) {
			r.Data = json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)
		}, kind: node.Invalid, says: "data"},
		{name: "data a million deep", tamper: func(r *workload.Reservation) {
			r.Data = json.RawMessage(strings.Repeat("[", 200_000) + strings.Repeat("]", 200_000))
		}, kind: node.Invalid, says: "data"},
		{name: "a time beyond what is signed", tamper: func(r *workload.Reservation) {
			r.Created = time.Date(2611, 1, 1, 0, 0, 0, 0, time.UTC)
		}, kind: node.Invalid, says: "created"},
	} {
		r := signed(t, tt.sign)
		if tt.tamper != nil {
			tt.tamper(r)
		}
		wantErr(t, tt.name, policy().Authentic(r), tt.kind, tt.says)
	}
}

// Any change to a signed member is noticed.
func TestNothingSignedCanBeChanged(t *testing.T) {
	good := signed(t, nil)
	if err := policy().Authentic(good); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		r := *good
		switch rapid.IntRange(0, 5).Draw(t, "member") {
		case 0:
			r.Duration += time.Duration(rapid.Int64Range(1, 1<<40).Draw(t, "more"))
		case 1:
			r.Created = r.Created.Add(time.Duration(rapid.Int64Range(1, 1<<40).Draw(t, "later")))
		case 2:
			r.Data = json.RawMessage(fmt.Sprintf(`{"size":%d,"type":"SSD"}`, rapid.IntRange(2, 1<<30).Draw(t, "size")))
		case 3:
			r.Nonce = rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "nonce")
		case 4:
			r.Type = workload.Type(rapid.StringMatching("[a-z]{1,12}").Draw(t, "type"))
		case 5:
			r.Signature = rapid.SliceOfN(rapid.Byte(), 64, 64).Draw(t, "signature")
		}
		if string(r.Type) == string(good.Type) && string(r.Nonce) == string(good.Nonce) && string(r.Data) == string(good.Data) &&
			r.Duration == good.Duration && r.Created.Equal(good.Created) && string(r.Signature) == string(good.Signature) {
			return
		}
		if policy().Authentic(&r) == nil {
			t.Fatalf("a changed reservation is authentic: %+v", r)
		}
	})
}

// Dates, durations, versions and births, by a clock that is trusted and by one that isn't.
func TestAcceptable(t *testing.T) {
	created := func(d time.Duration) func(*workload.Reservation) {
		return func(r *workload.Reservation) { r.Created = now().Add(d) }
	}
	lasts := func(d time.Duration) func(*workload.Reservation) {
		return func(r *workload.Reservation) { r.Duration = d }
	}
	renewed := func(r *workload.Reservation) { r.Renewal = &workload.Renewal{Expires: now().Add(time.Hour)} }
	both := func(edits ...func(*workload.Reservation)) func(*workload.Reservation) {
		return func(r *workload.Reservation) {
			for _, edit := range edits {
				edit(r)
			}
		}
	}
	v1 := func(r *workload.Reservation) { r.Version = workload.V1 }
	const fine node.Kind = ""
	for _, tt := range []struct {
		name   string
		edit   func(*workload.Reservation)
		policy func(*verify.Policy)
		// trusted and doubted are the expected kinds by either clock.
		trusted, doubted node.Kind
		says             string
	}{
		{"an hour old", nil, nil, fine, fine, ""},
		{"days old, because the node was away", both(created(-47*time.Hour), lasts(60*time.Hour)), nil, fine, fine, ""},
		{"ten minutes ahead", created(10 * time.Minute), nil, fine, fine, ""},
		{"more than ten minutes ahead", created(10*time.Minute + 1), nil, node.Refused, node.Transient, "created"},
		{"a year ahead", created(365 * 24 * time.Hour), nil, node.Refused, node.Transient, "created"},
		{"over when it comes", both(created(-time.Hour), lasts(time.Hour)), nil, node.Refused, node.Transient, "expired"},
		{"over in a nanosecond", both(created(-time.Hour), lasts(time.Hour+1)), nil, fine, fine, ""},
		// It may have been here and been deleted: its tombstone is buried at its first end.
		{"over, but renewed", both(created(-2*time.Hour), lasts(time.Hour), renewed), nil, node.Refused, node.Transient, "expired"},
		{"over, but renewed, older than the store, which the operator accepts", both(created(-49*time.Hour), lasts(time.Hour), renewed),
			func(p *verify.Policy) { p.AcceptsOlder = true }, fine, fine, ""},
		{"no duration", lasts(0), nil, node.Invalid, node.Invalid, "duration"},
		{"a negative duration", lasts(-time.Second), nil, node.Invalid, node.Invalid, "duration"},
		{"the longest duration there is", lasts(1<<63 - 1), nil, node.Refused, node.Refused, "duration"},
		{"a year", lasts(365 * 24 * time.Hour), nil, fine, fine, ""},
		{"more than a year", lasts(365*24*time.Hour + 1), nil, node.Refused, node.Refused, "at most 8760h0m0s"},
		{"more than the operator allows", lasts(2 * time.Hour), func(p *verify.Policy) { p.MaxDuration = time.Hour }, node.Refused, node.Refused, "at most 1h0m0s"},
		{"version 1", v1, nil, node.Refused, node.Refused, "version"},
		{"version 1, which the operator accepts", v1, func(p *verify.Policy) { p.AcceptV1, p.AcceptsOlder = true, true }, fine, fine, ""},
		{"version 1, by a node that has lost its store", v1, func(p *verify.Policy) { p.AcceptV1 = true }, node.Refused, node.Refused, "version"},
		{"before the store's birth", both(created(-49*time.Hour), lasts(60*time.Hour)), nil, node.Refused, node.Refused, "created"},
		{"at the store's birth", both(created(-48*time.Hour), lasts(60*time.Hour)), nil, node.Refused, node.Refused, "created"},
		{"before the store's birth, which the operator accepts", both(created(-49*time.Hour), lasts(60*time.Hour)),
			func(p *verify.Policy) { p.AcceptsOlder = true }, fine, fine, ""},
		{"a store whose birth has no date yet", nil, func(p *verify.Policy) { p.Birth = time.Time{} }, node.Transient, node.Transient, "birth"},
	} {
		p := policy()
		if tt.policy != nil {
			tt.policy(&p)
		}
		r := signed(t, tt.edit)
		wantErr(t, tt.name, p.Acceptable(r, verify.Time{Now: now(), Trusted: true}), tt.trusted, tt.says)
		wantErr(t, tt.name+", in doubt", p.Acceptable(r, verify.Time{Now: now()}), tt.doubted, tt.says)
	}
}

// An untrusted clock, wrong by any amount, refuses nothing for good.
func TestAWrongClockRefusesNothing(t *testing.T) {
	r := signed(t, nil)
	rapid.Check(t, func(t *rapid.T) {
		wrong := time.Duration(rapid.Int64().Draw(t, "wrong"))
		err := policy().Acceptable(r, verify.Time{Now: now().Add(wrong)})
		if node.KindOf(err).Final() {
			t.Fatalf("off by %s: %v", wrong, err)
		}
	})
	err := policy().Acceptable(r, verify.Time{Now: time.Unix(0, 0)})
	wantErr(t, "in 1970", err, node.Transient, "can't be trusted")
}

func renewed(t testing.TB, expires time.Time, by byte) *workload.Reservation {
	t.Helper()
	r := signed(t, nil)
	h, err := r.Hash()
	if err != nil {
		t.Fatal(err)
	}
	n := workload.Renewal{Expires: expires}
	message, err := n.SigningBytes(h)
	if err != nil {
		t.Fatal(err)
	}
	n.Signature = ed25519.Sign(key(by), message)
	r.Renewal = &n
	return r
}

func TestRenewal(t *testing.T) {
	const most = verify.DefaultMaxDuration
	for _, tt := range []struct {
		name    string
		expires time.Time
		by      byte
		at      verify.Time
		kind    node.Kind
		says    string
	}{
		{"a month longer", now().Add(30 * 24 * time.Hour), user, verify.Time{Now: now(), Trusted: true}, "", ""},
		{"a year from now", now().Add(most), user, verify.Time{Now: now(), Trusted: true}, "", ""},
		{"more than a year from now", now().Add(most + 1), user, verify.Time{Now: now(), Trusted: true, Proven: true}, node.Refused, "renewal.expires"},
		{"more than a year from what may be the explorer's time", now().Add(most + 1), user, verify.Time{Now: now(), Trusted: true}, node.Transient, "renewal.expires"},
		{"by another user", now().Add(time.Hour), otherUser, verify.Time{Now: now(), Trusted: true}, node.Invalid, "signature"},
		{"a month longer, in 1970", now().Add(30 * 24 * time.Hour), user, verify.Time{Now: time.Unix(0, 0)}, "", ""},
		{"a year from its creation, in 1970", now().Add(most - time.Hour), user, verify.Time{Now: time.Unix(0, 0)}, "", ""},
		{"more than that, in 1970", now().Add(most), user, verify.Time{Now: time.Unix(0, 0)}, node.Transient, "renewal.expires"},
		{"more than that, in 1970, but it is known to be later", now().Add(most), user, verify.Time{Now: time.Unix(0, 0), Floor: now()}, "", ""},
		{"beyond what can be bounded, by a clock that is years ahead", now().Add(3 * most), user,
			verify.Time{Now: now().Add(3 * most), Floor: now()}, node.Transient, "renewal.expires"},
	} {
		wantErr(t, tt.name, policy().Renewal(renewed(t, tt.expires, tt.by), tt.at), tt.kind, tt.says)
	}
	wantErr(t, "no renewal", policy().Renewal(signed(t, nil), verify.Time{Now: now(), Trusted: true}), node.Invalid, "renewal")
	other := renewed(t, now().Add(time.Hour), user)
	other.Nonce = make([]byte, 16)
	wantErr(t, "another reservation's", policy().Renewal(other, verify.Time{Now: now(), Trusted: true}), node.Invalid, "signature")
}

func TestDeletion(t *testing.T) {
	r := signed(t, func(r *workload.Reservation) { r.ToDelete = true })
	wantErr(t, "unsigned", policy().Deletion(r), node.Invalid, "deletion")
	if err := r.SignDeletion(workload.Deletion{Created: now()}, key(user)); err != nil {
		t.Fatal(err)
	}
	wantErr(t, "its user's", policy().Deletion(r), "", "")
	forged := *r
	forged.Deletion = &workload.Deletion{Created: now().Add(1), Signature: r.Deletion.Signature}
	wantErr(t, "at another time", policy().Deletion(&forged), node.Invalid, "signature")
	other := signed(t, nil)
	other.Deletion = r.Deletion
	wantErr(t, "of another reservation", policy().Deletion(other), node.Invalid, "signature")
}

// world is a Judge's clock and store.
type world struct {
	now     time.Time
	trusted bool
	birth   store.Birth
	older   bool
}

func (w *world) Read() clock.Reading {
	level := clock.None
	if w.trusted {
		level = clock.Remove
	}
	return clock.Reading{Now: w.now, Level: level}
}

func (w *world) Floor() time.Time   { return w.now }
func (w *world) Birth() store.Birth { return w.birth }
func (w *world) AcceptsOlder() bool { return w.older }

// The judge asks the clock and the store each time.
func TestJudge(t *testing.T) {
	w := &world{now: now(), trusted: true, birth: store.Birth{Time: now()}}
	data := error(nil)
	j, err := verify.New(verify.Config{
		Policy: verify.Policy{NodeID: id(thisNode)}, Clock: w, Store: w,
		Data: func(*workload.Reservation) error { return data },
	})
	if err != nil {
		t.Fatal(err)
	}
	r := signed(t, nil)
	wantErr(t, "authentic", j.Authentic(r), "", "")
	wantErr(t, "before the birth", j.Acceptable(r), node.Refused, "store")
	w.older = true
	wantErr(t, "after accept-older", j.Acceptable(r), "", "")
	w.now = time.Unix(0, 0)
	w.trusted = false
	wantErr(t, "the clock has jumped", j.Acceptable(r), node.Transient, "created")
	w.now, w.trusted = now().Add(48*time.Hour), true
	wantErr(t, "two days later", j.Acceptable(r), node.Refused, "expired")
	w.now = now()
	wantErr(t, "a renewal", j.Renewal(renewed(t, now().Add(time.Hour), user)), "", "")
	wantErr(t, "a renewal by the default's bound", j.Renewal(renewed(t, now().Add(verify.DefaultMaxDuration+1), user)), node.Refused, "renewal")
	wantErr(t, "a deletion", j.Deletion(r), node.Invalid, "deletion")
	wantErr(t, "good data", j.Validate(r), "", "")
	data = errors.New("cannot accept data.size: it is 0, must be at least 1")
	wantErr(t, "bad data", j.Validate(r), node.Invalid, "data.size")
	data = node.Errorf(node.Refused, "cannot accept data: not here")
	wantErr(t, "data that is refused", j.Validate(r), node.Refused, "not here")
}

func TestJudgeConfig(t *testing.T) {
	w := &world{}
	data := func(*workload.Reservation) error { return nil }
	for name, c := range map[string]verify.Config{
		"nothing":            {},
		"no node":            {Clock: w, Store: w, Data: data},
		"a node that is bad": {Policy: verify.Policy{NodeID: "x"}, Clock: w, Store: w, Data: data},
		"negative":           {Policy: verify.Policy{NodeID: id(thisNode), MaxDuration: -1}, Clock: w, Store: w, Data: data},
		"no clock":           {Policy: verify.Policy{NodeID: id(thisNode)}, Store: w, Data: data},
	} {
		if _, err := verify.New(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
