package api

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/workload"
)

// The refusal of a push gives the reason; the push changes nothing and takes no number.
func TestBadPushes(t *testing.T) {
	h := start(t)
	user, other := newKey(t), newKey(t)
	key, _ := h.node()
	stranger := newKey(t)

	signed := func(change ...func(*workload.Reservation)) string {
		doc, err := workload.Encode(h.volume(user, key.ID(), change...))
		must(t, err)
		return string(doc)
	}
	good := signed()
	now := h.clock.now()
	// forged makes a document whose content differs from the signed one.
	forged := func(change func(*workload.Reservation)) string {
		r := h.volume(user, key.ID())
		change(r)
		doc, err := workload.Encode(r)
		must(t, err)
		return string(doc)
	}
	swap := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("%s isn't in %s", old, good)
		}
		return strings.Replace(good, old, new, 1)
	}

	cases := []struct {
		name   string
		body   string
		to     string
		status int
		field  string
	}{
		{"not JSON", "{nonsense", "", 400, ""},
		{"empty", "", "", 400, ""},
		{"an array", "[]", "", 400, "document"},
		{"null", "null", "", 400, "document"},
		{"two values", good + good, "", 400, ""},
		{"not UTF-8", swap(`"SSD"`, "\"\xff\""), "", 400, ""},
		{"duplicate member", swap(`"type":"volume",`, `"type":"volume","type":"volume",`), "", 400, "type"},
		{"duplicate member in data", swap(`"size":1,`, `"size":1,"size":1,`), "", 400, "data.size"},
		{"member in another case", swap(`"to_delete"`, `"To_Delete"`), "", 400, "To_Delete"},
		{"unknown member", swap(`"to_delete"`, `"priority":1,"to_delete"`), "", 400, "priority"},
		{"unknown member of data", signed(func(r *workload.Reservation) { r.Data = json.RawMessage(`{"size":1,"type":"SSD","colour":"red"}`) }), "", 400, "data.colour"},
		{"nested too deep", swap(`"size":1`, `"size":`+strings.Repeat("[", 40)+strings.Repeat("]", 40)), "", 400, ""},
		{"integer beyond 2^53", swap(`"size":1`, `"size":9007199254740993`), "", 400, "data.size"},
		{"size that would wrap", signed(func(r *workload.Reservation) { r.Data = json.RawMessage(`{"size":17179869185,"type":"SSD"}`) }), "", 400, "data.size"},
		{"size 0", signed(func(r *workload.Reservation) { r.Data = json.RawMessage(`{"size":0,"type":"SSD"}`) }), "", 400, "data.size"},
		{"unknown type", signed(func(r *workload.Reservation) { r.Type = "rocket" }), "", 400, "type"},
		{"no data", signed(func(r *workload.Reservation) { r.Data = json.RawMessage(`null`) }), "", 400, "data"},
		{"client's own id", signed(func(r *workload.Reservation) { r.ID = "5-1" }), "", 400, "id"},
		{"id is a path", signed(func(r *workload.Reservation) { r.ID = "../../x" }), "", 400, "id"},
		{"to_delete", swap(`"to_delete":false`, `"to_delete":true`), "", 400, "to_delete"},
		{"with a deletion", swap(`"to_delete":false`, `"to_delete":false,"deletion":{"created":"2026-01-01T00:00:00Z","signature":""}`), "", 400, "deletion and renewal"},
		{"another node's address", good, stranger.ID(), 400, "node_id"},
		{"node isn't registered", "", stranger.ID(), 404, ""},
		{"node isn't an ID", good, "nonode", 400, "node_id"},
		{"user isn't an ID", forged(func(r *workload.Reservation) { r.User = "0OIl" }), "", 400, "user_id"},
		{"another user's name", forged(func(r *workload.Reservation) { r.User = other.ID() }), "", 400, "signature"},
		{"tampered data", forged(func(r *workload.Reservation) { r.Data = json.RawMessage(`{"size":2,"type":"SSD"}`) }), "", 400, "signature"},
		{"tampered duration", forged(func(r *workload.Reservation) { r.Duration += time.Second }), "", 400, "signature"},
		{"tampered created", forged(func(r *workload.Reservation) { r.Created = r.Created.Add(time.Second) }), "", 400, "signature"},
		{"tampered nonce", forged(func(r *workload.Reservation) { r.Nonce = make([]byte, 16) }), "", 400, "signature"},
		{"short nonce", forged(func(r *workload.Reservation) { r.Nonce = []byte{1} }), "", 400, "signature"},
		{"no signature", forged(func(r *workload.Reservation) { r.Signature = nil }), "", 400, "signature"},
		{"short signature", forged(func(r *workload.Reservation) { r.Signature = r.Signature[:63] }), "", 400, "signature"},
		{"version 3", forged(func(r *workload.Reservation) { r.Version = 3 }), "", 400, "version"},
		{"version 1", signed(func(r *workload.Reservation) { r.Version = workload.V1 }), "", 403, "version"},
		{"duration 0", signed(func(r *workload.Reservation) { r.Duration = 0 }), "", 400, "duration"},
		{"negative duration", signed(func(r *workload.Reservation) { r.Duration = -time.Hour }), "", 400, "duration"},
		{"duration over a year", signed(func(r *workload.Reservation) { r.Duration = 366 * 24 * time.Hour }), "", 400, "duration"},
		{"largest duration", signed(func(r *workload.Reservation) { r.Duration = 1<<63 - 1 }), "", 400, "duration"},
		{"duration over int64", swap(`"duration":3600000000000`, `"duration":9223372036854775808`), "", 400, "duration"},
		{"created in the future", signed(func(r *workload.Reservation) { r.Created = now.Add(11 * time.Minute) }), "", 400, "created"},
		{"created before 1970", signed(func(r *workload.Reservation) { r.Created = time.Unix(-1, 0) }), "", 400, "created"},
		{"created beyond 2262", swap(now.UTC().Format("2006-"), "9999-"), "", 400, "created"},
		{"expired", signed(func(r *workload.Reservation) { r.Created = now.Add(-2 * time.Hour) }), "", 400, "duration"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h.t = t
			to, body := c.to, c.body
			if to == "" {
				to = key.ID()
			}
			if c.name == "node isn't registered" {
				doc, err := workload.Encode(h.volume(user, stranger.ID()))
				must(t, err)
				body = string(doc)
			}
			p := h.problem("POST", "/reservations/"+to, body, c.status)
			if p.Field != c.field {
				t.Errorf("field is %q, want %q: %s", p.Field, c.field, p.Detail)
			}
			if p.Field != "" && p.Allowed == "" {
				t.Errorf("it doesn't say what is allowed: %+v", p)
			}
		})
	}
	h.t = t
	if head, _ := h.store.Nodes.Head(key.ID()); head != 0 {
		t.Errorf("the node's head is %d, want 0: nothing was accepted", head)
	}
	if r := h.push(user, key.ID()); r.ID != "1-1" {
		t.Errorf("the first good push is %s, want 1-1: refusals take no numbers", r.ID)
	}
}

func TestGoodPushesAtTheEdges(t *testing.T) {
	h := start(t)
	user := newKey(t)
	key, _ := h.node()
	now := h.clock.now()
	for name, change := range map[string]func(*workload.Reservation){
		"10 minutes ahead": func(r *workload.Reservation) { r.Created = now.Add(10 * time.Minute) },
		"days back":        func(r *workload.Reservation) { r.Created, r.Duration = now.Add(-72*time.Hour), 73*time.Hour },
		"a whole year":     func(r *workload.Reservation) { r.Duration = 365 * 24 * time.Hour },
		"one nanosecond":   func(r *workload.Reservation) { r.Created, r.Duration = now.Add(time.Minute), 1 },
	} {
		t.Run(name, func(t *testing.T) {
			h.t = t
			h.push(user, key.ID(), change)
		})
	}
	h.t = t
}

func TestUnknownPathsAndMethods(t *testing.T) {
	h := start(t)
	key, _ := h.node()
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/", 404},
		{"GET", "/nothing", 404},
		{"GET", "/reservations/999-1", 404},
		{"GET", "/reservations/1-2", 404},
		{"GET", "/reservations/18446744073709551615-1", 404},
		{"GET", "/reservations/x", 400},
		{"GET", "/reservations/..%2f..%2fx", 404},
		{"GET", "/reservations/../nodes", 404},
		{"GET", "//nodes", 404},
		{"PATCH", "/nodes", 405},
		{"DELETE", "/nodes/" + key.ID(), 405},
		{"GET", "/nodes/nonode", 404},
		{"GET", "/farms/x", 400},
		{"GET", "/farms/9", 404},
		{"GET", "/nodes?limit=0", 400},
		{"GET", "/nodes?limit=1001", 400},
		{"GET", "/nodes?colour=red", 400},
		{"GET", "/nodes?online=perhaps", 400},
		{"GET", "/farms?after=-1", 400},
		{"GET", "/reservations", 400},
		{"GET", "/reservations?user=me", 400},
		{"GET", "/reservations/" + key.ID() + "/poll?after=x", 400},
		{"GET", "/reservations/" + key.ID() + "/poll?after=0&wait=-1s", 400},
		{"GET", "/reservations/" + key.ID() + "/poll?after=0&epoch=" + strings.Repeat("a", 65), 400},
		{"GET", "/reservations/" + key.ID() + "/poll?from=abc", 400},
		{"GET", "/reservations/" + newKey(t).ID() + "/poll?after=0", 404},
	} {
		r, err := http.NewRequest(c.method, h.server.URL, nil)
		must(t, err)
		r.URL.Opaque = c.path // unchanged, not cleaned by the client
		resp, err := h.checker.Inner.RoundTrip(r)
		must(t, err)
		_ = resp.Body.Close()
		if resp.StatusCode != c.status || resp.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s answers %d %s, want %d and a problem", c.method, c.path, resp.StatusCode, resp.Header.Get("Content-Type"), c.status)
		}
		if c.status == 405 && resp.Header.Get("Allow") == "" {
			t.Errorf("%s %s doesn't say what is allowed", c.method, c.path)
		}
	}
}
