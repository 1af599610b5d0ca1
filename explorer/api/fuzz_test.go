package api

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/explorer/longpoll"
	"github.com/croft-edge/croft/explorer/store"
	"github.com/croft-edge/croft/pkg/workload"
)

// The explorer accepts or refuses any body; it never answers 5xx.
func FuzzBodies(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `[]`, `null`, `{"a":1,"A":2}`, `{"node_id":"5f4NTehmQGhwTDCtorQTFL58HfopFWDXDSR8BqRu6ddZ","uptime":1e99}`,
		`{"created":"2026-11-20T13:16:34Z","signature":"AA=="}`, `[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[`, "\"\\ud800\"", `{"ports":[-1]}`,
		`{"id":"","node_id":"","user_id":"","type":"volume","data":{"size":10},"created":"9999-12-31T23:59:59Z","duration":1e3,"signature":"","version":2,"nonce":""}`,
	} {
		f.Add([]byte(seed))
	}
	waiters := longpoll.NewWaiters()
	s, err := store.Open(context.Background(), store.Config{Path: filepath.Join(f.TempDir(), "e.db"), Changed: waiters.Changed})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = s.Close() })
	policy := testPolicy()
	policy.AcceptSignatureV1, policy.AcceptUnsignedNodeWrites = true, true
	clock := &clock{}
	clock.ns.Store(1795180568e9)
	server, err := New(Config{Store: s, Waiters: waiters, Policy: policy, Metrics: NewMetrics(), Log: zerolog.Nop(), Now: clock.now, Validate: workload.Validate})
	if err != nil {
		f.Fatal(err)
	}
	const id = "5f4NTehmQGhwTDCtorQTFL58HfopFWDXDSR8BqRu6ddZ"
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, to := range [][2]string{
			{"POST", "/nodes"}, {"POST", "/nodes/" + id + "/uptime"}, {"POST", "/nodes/" + id + "/interfaces"}, {"POST", "/nodes/" + id + "/ports"},
			{"POST", "/farms"}, {"PUT", "/farms/1/nodes/" + id}, {"POST", "/reservations/" + id}, {"PUT", "/reservations/1-1"},
			{"DELETE", "/reservations/1-1"}, {"PUT", "/reservations/1-1/renewal"}, {"PUT", "/reservations/1-1/deleted"},
		} {
			w := httptest.NewRecorder()
			server.ServeHTTP(w, httptest.NewRequest(to[0], to[1], bytes.NewReader(body)))
			if w.Code >= http.StatusInternalServerError {
				t.Errorf("%s %s answers %d to %q: %s", to[0], to[1], w.Code, body, w.Body)
			}
		}
	})
}
