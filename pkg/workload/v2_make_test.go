package workload_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/workload"
)

type vectorKey struct {
	ID   string `json:"id"`
	Seed string `json:"seed_hex"`
}

// maker makes the vectors of version 2, the same ones each time.
type maker struct {
	t *testing.T
	// made counts the nonces.
	made byte
}

func makeVectors(t *testing.T) map[string]any {
	m := &maker{t: t}
	keys := map[string]vectorKey{}
	for _, name := range []string{"user", "other-user", "node1", "node2"} {
		k := testKey(t, name)
		keys[name] = vectorKey{ID: k.ID(), Seed: hex.EncodeToString(k.Seed())}
	}
	return map[string]any{
		"keys": keys, "reservation": m.reservations(), "deletion": m.deletions(), "renewal": m.renewals(), "result": m.results(), "secret": m.secrets(),
		"reference": makeReferences(t),
	}
}

// draft is an unsigned document of version 2.
func (m *maker) draft(kind workload.Type, data string) *workload.Reservation {
	m.made++
	nonce := sha256.Sum256([]byte{m.made})
	return &workload.Reservation{
		ID: "7-1", NodeID: testKey(m.t, "node1").ID(), User: testKey(m.t, "user").ID(), Type: kind, Data: json.RawMessage(data), Version: workload.V2, Nonce: nonce[:workload.NonceSize],
		Created: time.Date(2026, 11, 20, 13, 16, 34, 41316027, time.UTC), Duration: 30 * 24 * time.Hour,
	}
}

func (m *maker) volume() *workload.Reservation {
	return m.signed(m.draft(workload.TypeVolume, `{"size":10,"type":"SSD"}`))
}

func (m *maker) signed(r *workload.Reservation) *workload.Reservation {
	m.t.Helper()
	if err := r.Sign(testKey(m.t, "user").Private()); err != nil {
		m.t.Fatal(err)
	}
	return r
}

func (m *maker) encode(r *workload.Reservation) string {
	m.t.Helper()
	out, err := workload.Encode(r)
	if err != nil {
		m.t.Fatal(err)
	}
	return string(out)
}

func (m *maker) good(name string, r *workload.Reservation) vector {
	return m.goodForm(name, r, m.encode(r))
}

// goodForm is a good vector whose document is another form of r.
func (m *maker) goodForm(name string, r *workload.Reservation, document string) vector {
	m.t.Helper()
	signed, err := r.SigningBytes()
	if err != nil {
		m.t.Fatal(err)
	}
	canonical, err := workload.Canonical(r.Data)
	if err != nil {
		m.t.Fatal(err)
	}
	h := sha256.Sum256(signed)
	return vector{
		Name: name, Document: document, DataCanonical: string(canonical), SignedBytes: hex.EncodeToString(signed), Hash: hex.EncodeToString(h[:]),
		Signature: base64.StdEncoding.EncodeToString(ed25519.Sign(testKey(m.t, "user").Private(), signed)),
	}
}

// replaced is a good document with old replaced by new.
func (m *maker) replaced(old, new string) string {
	m.t.Helper()
	return m.in(m.encode(m.volume()), old, new)
}

func (m *maker) in(document, old, new string) string {
	m.t.Helper()
	if strings.Count(document, old) != 1 {
		m.t.Fatalf("%s isn't once in %s", old, document)
	}
	return strings.Replace(document, old, new, 1)
}

// signedOver is a volume whose signature is over the wrong bytes.
func (m *maker) signedOver(change func(signed []byte) []byte) string {
	m.t.Helper()
	r := m.volume()
	signed, err := r.SigningBytes()
	if err != nil {
		m.t.Fatal(err)
	}
	r.Signature = testKey(m.t, "user").Sign(change(signed))
	return m.encode(r)
}

func (m *maker) reservations() vectorFile {
	out := vectorFile{About: "Reservations of version 2, whole documents. A good one passes decode, verify and validate. Keys are in keys.json."}
	for _, name := range []string{"volume_hdd", "zdb_nopassword", "container", "network_access", "kubernetes_master", "debug"} {
		r := decode(m.t, readRecorded(m.t, name).Post.Request)
		out.Good = append(out.Good, m.good(string(r.Type), m.signed(m.draft(r.Type, string(r.Data)))))
	}
	r := m.volume()
	r.Duration = 100 * 365 * 24 * time.Hour
	out.Good = append(out.Good, m.good("a hundred years", m.signed(r)))
	r = m.volume()
	r.ID = ""
	out.Good = append(out.Good, m.good("pushed, without an ID", r))
	r = m.volume()
	r.Created = time.Date(1969, 12, 31, 23, 59, 59, 999999999, time.UTC)
	out.Good = append(out.Good, m.good("one nanosecond before 1970", m.signed(r)))
	r = m.volume()
	document := m.in(m.encode(r), `{"size":10,"type":"SSD"}`, "{\n  \"type\" : \"\\u0053SD\", \"size\" : 1.0e1\n}")
	out.Good = append(out.Good, m.goodForm("another form of data", r, document))
	r = m.volume()
	document = m.in(m.in(m.encode(r), `T13:16:34.041316027Z`, `T14:46:34.041316027+01:30`), `2592000000000000`, `2.592e15`)
	out.Good = append(out.Good, m.goodForm("another form of time and duration", r, document))
	r = m.draft(workload.TypeContainer, `{"flist":"f","env":{"\u20ac":"Euro Sign","\r":"x","1":"One","\ud83d\ude00":"\ud83d\ude00/\u2028<&>","\ufb33":"\u0000"},"network":{"network_id":"réseau ☃","ips":["10.1.1.20"]},"capacity":{"cpu":1,"memory":64}}`)
	r.Data = json.RawMessage(strings.NewReplacer(`"\r":"x",`, "", `"\u0000"`, `"\u001f"`).Replace(string(r.Data)))
	out.Good = append(out.Good, m.good("names in the order of UTF-16", m.signed(r)))
	r = m.volume()
	r.ToDelete = true
	out.Good = append(out.Good, m.good("to_delete, which means nothing", r))
	out.Bad = append(m.undecodable(), append(m.unverifiable(), m.invalid()...)...)
	return out
}

func (m *maker) undecodable() []vector {
	const data, version = `{"size":10,"type":"SSD"}`, `"version":2`
	out := []vector{
		{Name: "names twice", Document: m.replaced(`"to_delete":false`, `"to_delete":false,"to_delete":true`), Reason: "a name is twice in the document"},
		{Name: "names twice in data", Document: m.replaced(data, `{"size":10,"type":"SSD","size":11}`), Reason: "a name is twice in data: libraries differ in which counts"},
		{Name: "names twice by escapes", Document: m.replaced(data, `{"size":10,"type":"SSD","s\u0069ze":11}`), Reason: "the escaped name is the same one"},
		{Name: "another case", Document: m.replaced(`"duration"`, `"Duration"`), Reason: "names are matched exactly"},
		{Name: "another case beside", Document: m.replaced(`"duration"`, `"DATA":{"size":99,"type":"SSD"},"duration"`), Reason: "libraries that ignore case would take the other data"},
		{Name: "unknown member", Document: m.replaced(version, `"version":2,"priority":1`), Reason: "a member that isn't defined"},
		{Name: "2^53", Document: m.replaced(`"size":10`, `"size":9007199254740992`), Reason: "an integer in data beyond 2^53-1"},
		{Name: "-2^53", Document: m.replaced(`"size":10`, `"size":-9007199254740992`), Reason: "an integer in data below -(2^53-1)"},
		{Name: "1e300", Document: m.replaced(`"size":10`, `"size":1e300`), Reason: "an integer in data beyond 2^53-1, with an exponent"},
		{Name: "1.0e20", Document: m.replaced(`"size":10`, `"size":1.0e20`), Reason: "an integer in data beyond 2^53-1, with a fraction and an exponent"},
		{Name: "lone surrogate", Document: m.replaced(`"SSD"`, `"\ud800"`), Reason: "half of a surrogate pair"},
		{Name: "invalid UTF-8", Document: "{\"id\":\"\\ud8\"}", Reason: "an escape of three digits"},
		{Name: "version 0", Document: m.replaced(version, `"version":0`), Reason: "an unknown version"},
		{Name: "version 3", Document: m.replaced(version, `"version":3`), Reason: "an unknown version"},
		{Name: "version 2 as text", Document: m.replaced(version, `"version":"2"`), Reason: "version isn't a number"},
		{Name: "said to be version 1", Document: m.replaced(version, `"version":1`), Reason: "version 1 has no nonce"},
		{Name: "without a version", Document: m.replaced(`,`+version, ``), Reason: "no version means 1, which has no nonce"},
		{Name: "a second document", Document: m.encode(m.volume()) + "{}", Reason: "something follows the document"},
		{Name: "torn", Document: strings.TrimSuffix(m.encode(m.volume()), `"}`), Reason: "the document breaks off"},
		{Name: "created 584 years later", Document: m.replaced(`2026-11-20T13:16:34.041316027Z`, wrap(m.volume().Created).Format(time.RFC3339Nano)), Reason: "beyond int64 nanoseconds; cut to 64 bits it would be the signed time"},
		{Name: "created in picoseconds", Document: m.replaced(`041316027Z`, `041316027999Z`), Reason: "more than nine digits of a second: the last ones wouldn't be signed"},
		{Name: "duration beyond int64", Document: m.replaced(`2592000000000000`, `9223372036854775808`), Reason: "an integer of more than 64 bits"},
		{Name: "half a nanosecond", Document: m.replaced(`2592000000000000`, `2592000000000000.5`), Reason: "duration isn't an integer"},
		{Name: "nonce with a line break", Document: m.replaced(`"nonce":"`, `"nonce":"\n`), Reason: "base64 has no white space in it"},
		{Name: "too deep", Document: m.replaced(data, strings.Repeat("[", 33)+strings.Repeat("]", 33)), Reason: "deeper than 32 objects and arrays"},
	}
	return staged("decode", out)
}

func staged(stage string, list []vector) []vector {
	for i := range list {
		list[i].Stage = stage
	}
	return list
}

func (m *maker) unverifiable() []vector {
	changed := func(change func(r *workload.Reservation)) string {
		r := m.volume()
		change(r)
		return m.encode(r)
	}
	out := []vector{
		{Name: "tampered data", Document: m.replaced(`"size":10`, `"size":11`), Reason: "data is signed"},
		{Name: "another node", Document: changed(func(r *workload.Reservation) { r.NodeID = testKey(m.t, "node2").ID() }), Reason: "node_id is signed"},
		{Name: "another user", Document: changed(func(r *workload.Reservation) { r.User = testKey(m.t, "other-user").ID() }), Reason: "user_id is the key"},
		{Name: "another type", Document: m.replaced(`"volume"`, `"zdb"`), Reason: "type is signed"},
		{Name: "a nanosecond later", Document: m.replaced(`041316027Z`, `041316028Z`), Reason: "created is signed"},
		{Name: "a nanosecond longer", Document: m.replaced(`2592000000000000`, `2592000000000001`), Reason: "duration is signed"},
		{Name: "another nonce", Document: changed(func(r *workload.Reservation) { r.Nonce = make([]byte, 16) }), Reason: "nonce is signed"},
		{Name: "nonce of 15 bytes", Document: changed(func(r *workload.Reservation) {
			r.Nonce = r.Nonce[:15]
			signed, err := r.SigningBytes()
			if err != nil {
				m.t.Fatal(err)
			}
			r.Signature = testKey(m.t, "user").Sign(signed)
		}), Reason: "nonce must have 16 bytes, also when it is signed"},
		{Name: "without a nonce", Document: changed(func(r *workload.Reservation) { r.Nonce = nil }), Reason: "nonce is missing"},
		{Name: "without a signature", Document: changed(func(r *workload.Reservation) { r.Signature = nil }), Reason: "signature is missing"},
		{Name: "signature of 65 bytes", Document: changed(func(r *workload.Reservation) { r.Signature = append(r.Signature, 0) }), Reason: "signature must have 64 bytes"},
		{Name: "signature in its other form", Document: changed(func(r *workload.Reservation) { r.Signature = otherForm(r.Signature) }), Reason: "S is not below the group's order"},
		{Name: "signed by another key", Document: changed(func(r *workload.Reservation) {
			signed, err := r.SigningBytes()
			if err != nil {
				m.t.Fatal(err)
			}
			r.Signature = testKey(m.t, "other-user").Sign(signed)
		}), Reason: "the key isn't the user's"},
		{Name: "signed without the domain", Document: m.signedOver(func(b []byte) []byte { return b[len("croft-reservation-v2\x00"):] }), Reason: "the domain is missing"},
		{Name: "signed with another domain", Document: m.signedOver(func(b []byte) []byte { return bytes.Replace(b, []byte("reservation"), []byte("deletion"), 1) }), Reason: "the domain is another document's"},
		{Name: "signed without the zero byte", Document: m.signedOver(func(b []byte) []byte { return bytes.Replace(b, []byte("-v2\x00"), []byte("-v2"), 1) }), Reason: "the domain doesn't end in a zero byte"},
		{Name: "signed over the hash", Document: m.signedOver(func(b []byte) []byte { h := sha256.Sum256(b); return h[:] }), Reason: "it is ed25519 over the bytes, not over their hash"},
		{Name: "signed as version 1", Document: changed(func(r *workload.Reservation) {
			r.Signature = testKey(m.t, "user").Sign([]byte(r.NodeID + r.User + string(r.Type) + string(r.Data)))
		}), Reason: "the bytes are version 1's"},
		{Name: "signed over data as it stands", Document: m.signedOver(func(b []byte) []byte {
			return bytes.Replace(b, []byte("\x00\x00\x00\x18{\"size\":10,\"type\":\"SSD\"}"), []byte("\x00\x00\x00\x19{\"size\":10, \"type\":\"SSD\"}"), 1)
		}), Reason: "the bytes hold data before it was made canonical"},
		{Name: "signed with short lengths", Document: m.signedOver(func(b []byte) []byte {
			return bytes.Replace(b, []byte("\x00\x00\x00\x06volume"), []byte("\x06\x00\x00\x00volume"), 1)
		}), Reason: "a length is little-endian"},
		{Name: "weak user", Document: changed(func(r *workload.Reservation) {
			r.User = "1" + "1111111111111111111111111111111"
			r.Signature = make([]byte, 64)
		}), Reason: "user_id is a point of small order: anybody can sign by it"},
		{Name: "identity as user", Document: changed(func(r *workload.Reservation) {
			identity := append([]byte{1}, make([]byte, 31)...)
			r.User = "4uQeVj5tqViQh7yWWGStvkEG1Zmhx6uasJtWCJziofM"
			r.Signature = append(identity, make([]byte, 32)...)
		}), Reason: "user_id is the identity point: this signature would hold for everything"},
		{Name: "user of 31 bytes", Document: changed(func(r *workload.Reservation) { r.User = "2" }), Reason: "user_id isn't 32 bytes in base58"},
	}
	return staged("verify", out)
}

// otherForm adds the group's order to S.
func otherForm(signature []byte) []byte {
	out := bytes.Clone(signature)
	order, _ := hex.DecodeString("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010")
	carry := 0
	for i, b := range order {
		carry += int(out[32+i]) + int(b)
		out[32+i] = byte(carry)
		carry >>= 8
	}
	return out
}

func (m *maker) invalid() []vector {
	of := func(kind workload.Type, data string) string { return m.encode(m.signed(m.draft(kind, data))) }
	volume := func(change func(r *workload.Reservation)) string {
		r := m.volume()
		change(r)
		return m.encode(m.signed(r))
	}
	const container = `{"flist":"f","network":{"network_id":"n","ips":["10.1.1.20"]},"capacity":{"cpu":1,"memory":64}}`
	out := []vector{
		{Name: "size 0", Document: of("volume", `{"size":0,"type":"SSD"}`), Reason: "size must be at least 1"},
		{Name: "size that wraps", Document: of("volume", `{"size":17179869185,"type":"SSD"}`), Reason: "in bytes it is more than 63 bits: it must be at most 8589934591"},
		{Name: "size as text", Document: of("volume", `{"size":"10","type":"SSD"}`), Reason: "size must be an integer"},
		{Name: "field in another case", Document: of("volume", `{"Size":10,"type":"SSD"}`), Reason: "names in data are matched exactly"},
		{Name: "unknown field", Document: of("volume", `{"size":10,"type":"SSD","color":"red"}`), Reason: "a field that isn't defined"},
		{Name: "missing field", Document: of("volume", `{"size":10}`), Reason: "type is missing"},
		{Name: "unknown disk", Document: of("volume", `{"size":10,"type":"ssd"}`), Reason: "type must be SSD or HDD"},
		{Name: "data null", Document: of("volume", `null`), Reason: "data must be an object"},
		{Name: "unknown type", Document: of("vm", `{}`), Reason: "type isn't one of the six"},
		{Name: "zero duration", Document: volume(func(r *workload.Reservation) { r.Duration = 0 }), Reason: "duration must be positive"},
		{Name: "negative duration", Document: volume(func(r *workload.Reservation) { r.Duration = -1 }), Reason: "duration must be positive"},
		{Name: "overflowing duration", Document: volume(func(r *workload.Reservation) { r.Duration = 1<<63 - 1 }), Reason: "created + duration is beyond int64 nanoseconds"},
		{Name: "a path as ID", Document: volume(func(r *workload.Reservation) { r.ID = "../../x" }), Reason: "id must be N-M"},
		{Name: "weak node", Document: volume(func(r *workload.Reservation) { r.NodeID = "11111111111111111111111111111111" }), Reason: "node_id is a point of small order"},
		{Name: "no CPU", Document: of("container", strings.Replace(container, `"cpu":1`, `"cpu":0`, 1)), Reason: "cpu must be at least 1: 0 isn't unlimited"},
		{Name: "no memory", Document: of("container", strings.Replace(container, `"memory":64`, `"memory":0`, 1)), Reason: "memory must be at least 1: 0 isn't unlimited"},
		{Name: "no addresses", Document: of("container", strings.Replace(container, `["10.1.1.20"]`, `[]`, 1)), Reason: "ips must have an address"},
		{Name: "variable twice", Document: of("container", strings.Replace(container, `"network"`, `"env":{"A":"x"},"secret_env":{"A":"`+strings.Repeat("00", 48)+`"},"network"`, 1)), Reason: "A is in env and secret_env"},
		{Name: "short box", Document: of("zdb", `{"size":1,"mode":"user","password":"`+strings.Repeat("00", 47)+`","disk_type":"SSD"}`), Reason: "a sealed box has at least 48 bytes"},
		{Name: "public range", Document: of("network", strings.NewReplacer(`"10.1.0.0/16"`, `"8.8.0.0/16"`).Replace(readRecorded(m.t, "network").Data)), Reason: "ip_range must be private"},
		{Name: "host of a shell", Document: of("debug", `{"host":"x; reboot","port":1,"channel":"c"}`), Reason: "host must be a name or an address"},
	}
	return staged("validate", out)
}
