package workload_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"golang.org/x/crypto/nacl/box"

	"github.com/croft-edge/croft/pkg/workload"
)

func (m *maker) deletions() vectorFile {
	out := vectorFile{About: "Reservations of version 2 with a deletion. signed_bytes_hex and signature_base64 are the deletion's, hash_hex is the reservation's."}
	at := time.Date(2026, 11, 21, 8, 0, 0, 1, time.UTC)
	deleted := func() *workload.Reservation {
		r := m.volume()
		if err := r.SignDeletion(workload.Deletion{Created: at}, testKey(m.t, "user").Private()); err != nil {
			m.t.Fatal(err)
		}
		return r
	}
	r := deleted()
	h := hashOf(m.t, r)
	signed, err := r.Deletion.SigningBytes(h)
	if err != nil {
		m.t.Fatal(err)
	}
	out.Good = []vector{m.carried("deletion", r, signed, r.Deletion.Signature)}

	changed := func(change func(r *workload.Reservation)) string {
		r := deleted()
		change(r)
		return m.encode(r)
	}
	out.Bad = append(staged("verify", []vector{
		{Name: "none", Document: m.encode(m.volume()), Reason: "there is no deletion"},
		{Name: "later", Document: changed(func(r *workload.Reservation) { r.Deletion.Created = at.Add(1) }), Reason: "its time is signed"},
		{Name: "unsigned", Document: changed(func(r *workload.Reservation) { r.Deletion.Signature = nil }), Reason: "its signature is missing"},
		{Name: "of another reservation", Document: changed(func(r *workload.Reservation) { r.Deletion = deleted().Deletion }), Reason: "it is for another reservation's hash"},
		{Name: "by another user", Document: changed(func(r *workload.Reservation) {
			b, err := r.Deletion.SigningBytes(hashOf(m.t, r))
			if err != nil {
				m.t.Fatal(err)
			}
			r.Deletion.Signature = testKey(m.t, "other-user").Sign(b)
		}), Reason: "the key isn't the user's"},
		{Name: "a renewal's signature", Document: changed(func(r *workload.Reservation) {
			n := workload.Renewal{Expires: at}
			b, err := n.SigningBytes(hashOf(m.t, r))
			if err != nil {
				m.t.Fatal(err)
			}
			r.Deletion.Signature = testKey(m.t, "user").Sign(b)
		}), Reason: "the domain is the renewal's"},
		{Name: "the reservation's signature", Document: changed(func(r *workload.Reservation) { r.Deletion.Signature = r.Signature }), Reason: "it is over other bytes"},
	}), staged("decode", []vector{
		{Name: "584 years later", Document: m.in(m.encode(deleted()), `"created":"2026-11-21T08:00:00.000000001Z"`, `"created":"`+wrap(at).Format(time.RFC3339Nano)+`"`), Reason: "beyond int64 nanoseconds; cut to 64 bits it would be the signed time"},
		{Name: "unknown member", Document: m.in(m.encode(deleted()), `"deletion":{`, `"deletion":{"by":"me",`), Reason: "a member that isn't defined"},
		{Name: "without a time", Document: m.in(m.encode(deleted()), `"created":"2026-11-21T08:00:00.000000001Z",`, ``), Reason: "its time is missing"},
	})...)
	return out
}

// carried is a good vector of a reservation's deletion or renewal.
func (m *maker) carried(name string, r *workload.Reservation, signed, signature []byte) vector {
	v := m.good(name, r)
	v.SignedBytes, v.Signature = hex.EncodeToString(signed), ""
	if !bytes.Equal(testKey(m.t, "user").Sign(signed), signature) {
		m.t.Fatalf("%s: the signature isn't over its bytes", name)
	}
	return v
}

func (m *maker) renewals() vectorFile {
	out := vectorFile{About: "Reservations of version 2 with a renewal. signed_bytes_hex are the renewal's, hash_hex is the reservation's."}
	until := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	renewed := func() *workload.Reservation {
		r := m.volume()
		if err := r.SignRenewal(workload.Renewal{Expires: until}, testKey(m.t, "user").Private()); err != nil {
			m.t.Fatal(err)
		}
		return r
	}
	r := renewed()
	signed, err := r.Renewal.SigningBytes(hashOf(m.t, r))
	if err != nil {
		m.t.Fatal(err)
	}
	out.Good = []vector{m.carried("renewal", r, signed, r.Renewal.Signature)}
	changed := func(change func(r *workload.Reservation)) string {
		r := renewed()
		change(r)
		return m.encode(r)
	}
	out.Bad = append(staged("verify", []vector{
		{Name: "prolonged", Document: changed(func(r *workload.Reservation) { r.Renewal.Expires = until.Add(time.Hour) }), Reason: "its time is signed"},
		{Name: "of another reservation", Document: changed(func(r *workload.Reservation) { r.Renewal = renewed().Renewal }), Reason: "it is for another reservation's hash"},
		{Name: "a deletion's signature", Document: changed(func(r *workload.Reservation) {
			d := workload.Deletion{Created: until}
			b, err := d.SigningBytes(hashOf(m.t, r))
			if err != nil {
				m.t.Fatal(err)
			}
			r.Renewal.Signature = testKey(m.t, "user").Sign(b)
		}), Reason: "the domain is the deletion's"},
	}), staged("decode", []vector{
		{Name: "584 years longer", Document: m.in(m.encode(renewed()), `"expires":"2027-01-01T00:00:00Z"`, `"expires":"`+wrap(until).Format(time.RFC3339Nano)+`"`), Reason: "beyond int64 nanoseconds; cut to 64 bits it would be the signed time"},
		{Name: "as a number", Document: m.in(m.encode(renewed()), `"expires":"2027-01-01T00:00:00Z"`, `"expires":1798761600`), Reason: "a time is RFC 3339"},
	})...)
	return out
}

func (m *maker) results() vectorFile {
	out := vectorFile{About: "Results of version 2, checked against node_id and reservation_hash_hex."}
	h := hashOf(m.t, m.volume())
	node := testKey(m.t, "node1")
	make := func(change func(r *workload.Result)) *workload.Result {
		r := &workload.Result{
			Type: workload.TypeVolume, ID: "7-1", Created: time.Date(2026, 11, 20, 13, 20, 48, 571786777, time.UTC), State: workload.StateOK, Data: json.RawMessage(`{"volume_id":"7-1"}`),
			Hash: h[:], Birth: "5f2b9c1e", Sequence: 42, NodeID: node.ID(),
		}
		change(r)
		b, err := r.SigningBytes()
		if err != nil {
			m.t.Fatal(err)
		}
		r.Signature = node.Sign(b)
		return r
	}
	vectorOf := func(name string, r *workload.Result) vector {
		document, err := workload.EncodeResult(r)
		if err != nil {
			m.t.Fatal(err)
		}
		return vector{Name: name, Document: string(document), NodeID: node.ID(), ReservationHash: hex.EncodeToString(h[:])}
	}
	for name, change := range map[string]func(r *workload.Result){
		"ok": func(*workload.Result) {},
		"error": func(r *workload.Result) {
			r.State, r.Error, r.Data = workload.StateError, "cannot find \"<x>\" & more ✓", nil
		},
		"expired":         func(r *workload.Result) { r.State, r.Data, r.Sequence = workload.StateExpired, nil, 1<<62 },
		"without a birth": func(r *workload.Result) { r.Birth, r.Sequence = "", 0 },
	} {
		r := make(change)
		v := vectorOf(name, r)
		b, err := r.SigningBytes()
		if err != nil {
			m.t.Fatal(err)
		}
		v.SignedBytes = hex.EncodeToString(b)
		out.Good = append(out.Good, v)
	}
	sortByName(out.Good)
	bad := func(stage, name, reason string, change func(r *workload.Result)) {
		r := make(func(*workload.Result) {})
		change(r)
		v := vectorOf(name, r)
		v.Stage, v.Reason = stage, reason
		out.Bad = append(out.Bad, v)
	}
	bad("verify", "for another ID", "id is signed", func(r *workload.Result) { r.ID = "8-1" })
	bad("verify", "another state", "state is signed", func(r *workload.Result) { r.State = workload.StateDeleted })
	bad("verify", "another error", "error is signed", func(r *workload.Result) { r.Error = "x" })
	bad("verify", "other data", "data is signed", func(r *workload.Result) { r.Data = json.RawMessage(`{"volume_id":"8-1"}`) })
	bad("verify", "another time", "created is signed", func(r *workload.Result) { r.Created = r.Created.Add(1) })
	bad("verify", "another birth", "birth is signed", func(r *workload.Result) { r.Birth = "5f2b9c1f" })
	bad("verify", "another sequence", "sequence is signed", func(r *workload.Result) { r.Sequence++ })
	bad("verify", "of another reservation", "reservation_hash is another one", func(r *workload.Result) { r.Hash = bytes.Repeat([]byte{1}, 32) })
	bad("verify", "without a hash", "reservation_hash is missing", func(r *workload.Result) { r.Hash = nil })
	bad("verify", "by another node", "the key isn't the node's", func(r *workload.Result) {
		b, err := r.SigningBytes()
		if err != nil {
			m.t.Fatal(err)
		}
		r.Signature = testKey(m.t, "node2").Sign(b)
	})
	bad("verify", "signed as version 1", "the bytes are version 1's", func(r *workload.Result) { r.Signature = node.Sign([]byte(`{"volume_id":"7-1"}`)) })
	bad("decode", "unknown state", "state isn't one of the five", func(r *workload.Result) { r.State = "paused" })
	return out
}

func sortByName(list []vector) {
	for i := range list {
		for j := i; j > 0 && list[j].Name < list[j-1].Name; j-- {
			list[j], list[j-1] = list[j-1], list[j]
		}
	}
}

// secrets are sealed here by x/crypto alone, with known ephemeral keys.
func (m *maker) secrets() vectorFile {
	out := vectorFile{About: "Sealed secrets of version 2. node is the name of the key in keys.json that opens the box; plaintext_hex is what is in the box."}
	user, other := testKey(m.t, "user").ID(), testKey(m.t, "other-user").ID()
	lp := func(parts ...string) string {
		var b []byte
		for _, p := range parts {
			b = append(binary.BigEndian.AppendUint32(b, uint32(len(p))), p...)
		}
		return string(b)
	}
	const domain = "croft-secret-v2\x00"
	add := func(name, reason, plain string, s secretVector) {
		m.made++
		ephemeral := bytes.Repeat([]byte{m.made}, 32)
		s.Box, s.Ephemeral, s.Plaintext = hex.EncodeToString(m.seal(s.Node, ephemeral, plain)), hex.EncodeToString(ephemeral), hex.EncodeToString([]byte(plain))
		v := vector{Name: name, Secret: &s, Reason: reason}
		if reason == "" {
			out.Good = append(out.Good, v)
			return
		}
		v.Stage, v.Secret.Secret = "open", ""
		out.Bad = append(out.Bad, v)
	}
	of := func(kind workload.Type, path, secret string) secretVector {
		return secretVector{Node: "node1", User: user, Type: kind, Path: path, Secret: hex.EncodeToString([]byte(secret))}
	}
	add("password", "", domain+lp(user, "zdb", "password", "s3cr3t-zdb"), of("zdb", "password", "s3cr3t-zdb"))
	add("variable", "", domain+lp(user, "container", "secret_env.TOKEN", "pässwörd ✓"), of("container", "secret_env.TOKEN", "pässwörd ✓"))
	add("WireGuard key", "", domain+lp(user, "network", "net_resources[0].wg_private_key", "YH8xDRZLbOCJAKTSc2iXhYTQ04hgxkmFC1//DnusOGs="), of("network", "net_resources[0].wg_private_key", "YH8xDRZLbOCJAKTSc2iXhYTQ04hgxkmFC1//DnusOGs="))
	add("empty", "", domain+lp(user, "kubernetes", "cluster_secret", ""), of("kubernetes", "cluster_secret", ""))

	zdb := of("zdb", "password", "")
	add("of another user", "the box is bound to another user", domain+lp(other, "zdb", "password", "x"), zdb)
	add("of another type", "the box is bound to another type", domain+lp(user, "kubernetes", "password", "x"), zdb)
	add("of another field", "the box is bound to another field", domain+lp(user, "zdb", "passwort", "x"), zdb)
	add("parts cut elsewhere", "the lengths are others", domain+lp(user+"z", "db", "password", "x"), zdb)
	add("unbound", "the box is of version 1", "s3cr3t-zdb", zdb)
	add("another domain", "the domain is another one", "croft-secret-v1\x00"+lp(user, "zdb", "password", "x"), zdb)
	add("without the zero byte", "the domain doesn't end in a zero byte", "croft-secret-v2"+lp(user, "zdb", "password", "x"), zdb)
	add("longer than it says", "something follows the secret", domain+lp(user, "zdb", "password", "x")+"y", zdb)
	add("shorter than it says", "the secret breaks off", strings.TrimSuffix(domain+lp(user, "zdb", "password", "xyz"), "z"), zdb)
	add("without a secret", "the secret is missing", domain+lp(user, "zdb", "password"), zdb)
	whole := out.Good[0].Secret.Box
	for name, box := range map[string]string{"short box": whole[:94], "damaged box": whole[:len(whole)-2] + "00", "no hex": "zz" + whole[2:], "nothing": ""} {
		s := zdb
		s.Box = box
		out.Bad = append(out.Bad, vector{Name: name, Stage: "open", Reason: map[string]string{
			"short box": "a box has at least 48 bytes", "damaged box": "its last byte is another one", "no hex": "it isn't hex", "nothing": "there is no box",
		}[name], Secret: &s})
	}
	s := *out.Good[0].Secret
	s.Node, s.Secret = "node2", ""
	out.Bad = append(out.Bad, vector{Name: "another node", Stage: "open", Reason: "the box was made for another node", Secret: &s})
	sortByName(out.Bad)
	return out
}

func (m *maker) seal(node string, ephemeral []byte, plain string) []byte {
	m.t.Helper()
	var keys map[string]map[string]string
	readJSON(m.t, "v1/keys.json", &keys)
	key, err := hex.DecodeString(keys[node]["curve25519_public_hex"])
	if err != nil {
		m.t.Fatal(err)
	}
	out, err := box.SealAnonymous(nil, []byte(plain), (*[32]byte)(key), bytes.NewReader(ephemeral))
	if err != nil {
		m.t.Fatal(err)
	}
	return out
}
