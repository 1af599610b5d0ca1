package verdict_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/cmd/croft/internal/state"
	"github.com/croft-edge/croft/cmd/croft/internal/verdict"
	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// scene is a reservation that its user has signed, with the node's answer.
type scene struct {
	user, node, other sign.KeyPair
	own               workload.Reservation
	result            workload.Result
}

func moment() time.Time { return time.Date(2030, 5, 1, 12, 0, 0, 123, time.UTC) }

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{}
	for _, k := range []*sign.KeyPair{&s.user, &s.node, &s.other} {
		var err error
		if *k, err = sign.Generate(); err != nil {
			t.Fatal(err)
		}
	}
	s.own = workload.Reservation{NodeID: s.node.ID(), Type: workload.TypeVolume, Data: json.RawMessage(`{"size":1,"type":"SSD"}`), Created: moment(), Duration: time.Hour}
	if err := s.own.Sign(s.user.Private()); err != nil {
		t.Fatal(err)
	}
	s.own.ID = "7-1"
	s.result = workload.Result{Type: workload.TypeVolume, ID: "7-1", Created: moment().Add(time.Second), State: workload.StateOK,
		Data: json.RawMessage(`{"volume_id":"7-1"}`), Birth: "b1", Sequence: 5}
	s.sign(t, s.node)
	return s
}

// sign makes the result one of key.
func (s *scene) sign(t *testing.T, key sign.KeyPair) {
	t.Helper()
	hash, err := s.own.Hash()
	if err != nil {
		t.Fatal(err)
	}
	s.result.Hash, s.result.NodeID = hash[:], s.node.ID()
	message, err := s.result.SigningBytes()
	if err != nil {
		t.Fatal(err)
	}
	s.result.Signature = key.Sign(message)
}

// shown is an honest explorer's answer.
func (s *scene) shown() explorer.Reservation {
	result := s.result
	return explorer.Reservation{Reservation: s.own, Result: &result}
}

// TestJudge reads: when the explorer shows this, then that is the state.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		when     string
		do       func(t *testing.T, s *scene, shown *explorer.Reservation, seen *state.Seen)
		then     verdict.State
		verified bool
		problem  string
	}{
		{"the node's answer", nil, workload.StateOK, true, ""},
		{"no answer yet", func(_ *testing.T, _ *scene, shown *explorer.Reservation, _ *state.Seen) { shown.Result = nil }, verdict.Pending, false, ""},
		{"a result that another key has signed", func(t *testing.T, s *scene, shown *explorer.Reservation, _ *state.Seen) {
			s.sign(t, s.other)
			*shown = s.shown()
		}, verdict.Forged, false, "cannot verify signature"},
		{"another state than was signed", func(_ *testing.T, _ *scene, shown *explorer.Reservation, _ *state.Seen) {
			shown.Result.State = workload.StateError
		}, verdict.Forged, false, "cannot verify signature"},
		{"other data than was signed", func(_ *testing.T, _ *scene, shown *explorer.Reservation, _ *state.Seen) {
			shown.Result.Data = json.RawMessage(`{"volume_id":"8-1"}`)
		}, verdict.Forged, false, "cannot verify signature"},
		{"another sequence than was signed", func(_ *testing.T, _ *scene, shown *explorer.Reservation, _ *state.Seen) {
			shown.Result.Sequence++
		}, verdict.Forged, false, "cannot verify signature"},
		{"the same data, written differently", func(_ *testing.T, _ *scene, shown *explorer.Reservation, _ *state.Seen) {
			shown.Result.Data = json.RawMessage(` { "volume_id" : "7-1" } `)
		}, workload.StateOK, true, ""},
		{"a result of another reservation of the same node", func(t *testing.T, s *scene, shown *explorer.Reservation, _ *state.Seen) {
			s.own.Nonce[0]++
			s.sign(t, s.node)
			shown.Result = s.shown().Result
			s.own.Nonce[0]--
			shown.Nonce = append([]byte(nil), s.own.Nonce...)
		}, verdict.Forged, false, "another reservation"},
		{"a result under another ID", func(_ *testing.T, _ *scene, shown *explorer.Reservation, _ *state.Seen) {
			shown.Result.ID = "8-1"
		}, verdict.Forged, false, "the result is of volume 8-1"},
		{"a result of another type", func(_ *testing.T, _ *scene, shown *explorer.Reservation, _ *state.Seen) {
			shown.Result.Type = workload.TypeZDB
		}, verdict.Forged, false, "the result is of zdb"},
		{"a result of version 1", func(_ *testing.T, _ *scene, shown *explorer.Reservation, _ *state.Seen) {
			shown.Result.Hash = nil
		}, verdict.Unverified, false, "version 1"},
		{"another document", func(_ *testing.T, _ *scene, shown *explorer.Reservation, _ *state.Seen) {
			shown.Duration *= 2
		}, verdict.Forged, false, "another document under 7-1"},
		{"a document of a version that nobody knows", func(_ *testing.T, _ *scene, shown *explorer.Reservation, _ *state.Seen) {
			shown.Version = 9
		}, verdict.Forged, false, "version is 9"},
		{"the same answer as before", func(_ *testing.T, _ *scene, _ *explorer.Reservation, seen *state.Seen) {
			*seen = state.Seen{Birth: "b1", Sequence: 5, Created: moment()}
		}, workload.StateOK, true, ""},
		{"an older answer than before", func(_ *testing.T, _ *scene, _ *explorer.Reservation, seen *state.Seen) {
			*seen = state.Seen{Birth: "b1", Sequence: 6, Created: moment()}
		}, workload.StateOK, true, "newer result 6"},
		{"no answer, and there was one", func(_ *testing.T, _ *scene, shown *explorer.Reservation, seen *state.Seen) {
			shown.Result = nil
			*seen = state.Seen{Birth: "b1", Sequence: 6, Created: moment()}
		}, verdict.Pending, false, "shows no result, and result 6"},
		{"the first answer of a node with a new store", func(_ *testing.T, _ *scene, _ *explorer.Reservation, seen *state.Seen) {
			*seen = state.Seen{Birth: "b0", Sequence: 900, Created: moment()}
		}, workload.StateOK, true, ""},
		{"an answer of a store from before", func(_ *testing.T, _ *scene, _ *explorer.Reservation, seen *state.Seen) {
			*seen = state.Seen{Birth: "b2", Sequence: 1, Created: moment().Add(time.Hour)}
		}, workload.StateOK, true, "was seen before"},
		{"a deletion that the user has signed", func(t *testing.T, s *scene, shown *explorer.Reservation, _ *state.Seen) {
			if err := shown.SignDeletion(workload.Deletion{Created: moment()}, s.user.Private()); err != nil {
				t.Fatal(err)
			}
		}, verdict.Deleting, true, ""},
		{"a deletion that nobody has signed", func(_ *testing.T, _ *scene, shown *explorer.Reservation, _ *state.Seen) {
			shown.Deletion = &workload.Deletion{Created: moment(), Signature: make([]byte, 64)}
		}, workload.StateOK, true, ""},
		{"to_delete, which nobody signs", func(_ *testing.T, _ *scene, shown *explorer.Reservation, _ *state.Seen) {
			shown.ToDelete = true
		}, workload.StateOK, true, ""},
		{"the end after a deletion", func(t *testing.T, s *scene, shown *explorer.Reservation, _ *state.Seen) {
			s.result.State, s.result.Sequence = workload.StateDeleted, 6
			s.sign(t, s.node)
			*shown = s.shown()
			if err := shown.SignDeletion(workload.Deletion{Created: moment()}, s.user.Private()); err != nil {
				t.Fatal(err)
			}
		}, workload.StateDeleted, true, ""},
	} {
		t.Run(c.when, func(t *testing.T) {
			s := newScene(t)
			shown, seen := s.shown(), state.Seen{}
			if c.do != nil {
				c.do(t, s, &shown, &seen)
			}
			v := verdict.Judge(&s.own, shown, seen)
			if v.State != c.then || v.Verified != c.verified || (v.Problem == "") != (c.problem == "") || !strings.Contains(v.Problem, c.problem) {
				t.Errorf("got %s, verified %v, %q; want %s, %v, %q", v.State, v.Verified, v.Problem, c.then, c.verified, c.problem)
			}
			if v.Problem != "" && v.Seen != seen {
				t.Errorf("what can't be believed is remembered: %+v", v.Seen)
			}
		})
	}
}

// TestJudgeWithoutTheDocument: what wasn't signed here must carry its user's signature.
func TestJudgeWithoutTheDocument(t *testing.T) {
	s := newScene(t)
	if v := verdict.Judge(nil, s.shown(), state.Seen{}); v.State != workload.StateOK || v.Problem != "" || v.Seen.Sequence != 5 {
		t.Errorf("got %+v", v)
	}
	shown := s.shown()
	shown.Duration++
	if v := verdict.Judge(nil, shown, state.Seen{}); v.State != verdict.Forged {
		t.Errorf("a document that nobody signed is %s", v.State)
	}
}

func TestJudgeWithOwnDeletion(t *testing.T) {
	s := newScene(t)
	shown := s.shown()
	if err := s.own.SignDeletion(workload.Deletion{Created: moment()}, s.user.Private()); err != nil {
		t.Fatal(err)
	}
	if v := verdict.Judge(&s.own, shown, state.Seen{}); v.State != verdict.Deleting {
		t.Errorf("got %s: the explorer that hides the deletion changes nothing", v.State)
	}
}

func TestExpires(t *testing.T) {
	s := newScene(t)
	end := moment().Add(time.Hour)
	shown := s.shown().Reservation
	if got := verdict.Expires(&s.own, &shown); !got.Equal(end) {
		t.Errorf("ends at %v, want %v", got, end)
	}
	shown.Renewal = &workload.Renewal{Expires: end.Add(time.Hour), Signature: make([]byte, 64)}
	if got := verdict.Expires(&s.own, &shown); !got.Equal(end) {
		t.Errorf("a renewal that nobody signed prolongs to %v", got)
	}
	if err := shown.SignRenewal(workload.Renewal{Expires: end.Add(time.Hour)}, s.user.Private()); err != nil {
		t.Fatal(err)
	}
	if got := verdict.Expires(&s.own, &shown); !got.Equal(end.Add(time.Hour)) {
		t.Errorf("the signed renewal gives %v", got)
	}
	if err := s.own.SignRenewal(workload.Renewal{Expires: end.Add(2 * time.Hour)}, s.user.Private()); err != nil {
		t.Fatal(err)
	}
	if got := verdict.Expires(&s.own, &shown); !got.Equal(end.Add(2 * time.Hour)) {
		t.Errorf("an explorer that shows an older renewal gives %v", got)
	}
	if got := verdict.Expires(nil, &shown); !got.Equal(end.Add(time.Hour)) {
		t.Errorf("without the own document: %v", got)
	}
}
