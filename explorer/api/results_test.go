package api

import (
	"fmt"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

func TestResultsAreOrdered(t *testing.T) {
	h := start(t)
	user := newKey(t)
	key, c := h.node()
	r := h.push(user, key.ID())
	put := func(birth string, sequence int64) {
		t.Helper()
		must(t, c.PutResult(t.Context(), h.result(key, r, func(x *workload.Result) { x.Birth, x.Sequence = birth, sequence })))
	}
	want := func(birth string, sequence int64) {
		t.Helper()
		shown, err := c.Get(t.Context(), r.ID)
		must(t, err)
		if shown.Result.Birth != birth || shown.Result.Sequence != sequence {
			t.Errorf("the explorer has %s/%d, want %s/%d", shown.Result.Birth, shown.Result.Sequence, birth, sequence)
		}
	}
	for _, step := range []struct {
		birth    string
		sequence int64
		have     string
		haveSeq  int64
	}{
		{"a", 2, "a", 2},
		{"a", 2, "a", 2}, // a repetition
		{"a", 1, "a", 2}, // an older one is ignored
		{"a", 5, "a", 5},
		{"b", 1, "b", 1}, // a new store's birth
		{"a", 9, "b", 1}, // the old store's results no longer count
		{"b", 2, "b", 2},
	} {
		put(step.birth, step.sequence)
		want(step.have, step.haveSeq)
	}
}

func TestBadResults(t *testing.T) {
	h := start(t)
	user := newKey(t)
	key, c := h.node()
	foreign, _ := h.node()
	r, other := h.push(user, key.ID()), h.push(user, key.ID())

	for name, bad := range map[string]struct {
		result *workload.Result
		kind   node.Kind
	}{
		"another node's":        {h.result(foreign, r), node.Refused},
		"another reservation's": {func() *workload.Result { x := h.result(key, other); x.ID = r.ID; return x }(), node.Refused},
		"tampered":              {func() *workload.Result { x := h.result(key, r); x.State = workload.StateError; return x }(), node.Refused},
		"replayed as newer":     {func() *workload.Result { x := h.result(key, r); x.Sequence = 7; return x }(), node.Refused},
		"wrong type":            {h.result(key, r, func(x *workload.Result) { x.Type = workload.TypeZDB }), node.Invalid},
		"unknown state":         {h.result(key, r, func(x *workload.Result) { x.State = "fine" }), node.Invalid},
		"no birth":              {h.result(key, r, func(x *workload.Result) { x.Birth = "" }), node.Invalid},
		"sequence 0":            {h.result(key, r, func(x *workload.Result) { x.Sequence = 0 }), node.Invalid},
		"no hash":               {func() *workload.Result { x := h.result(key, r); x.Hash = nil; return x }(), node.Refused},
		"unknown reservation":   {func() *workload.Result { x := h.result(key, r); x.ID = "99-1"; return x }(), node.NotExist},
	} {
		t.Run(name, func(t *testing.T) {
			wantKind(t, c.PutResult(t.Context(), bad.result), bad.kind)
		})
	}
	wantKind(t, c.PutDeleted(t.Context(), r.ID, nil), node.Refused)
	wantKind(t, c.PutDeleted(t.Context(), r.ID, h.result(key, r)), node.Invalid)
	shown, err := c.Get(t.Context(), other.ID)
	must(t, err)
	if shown.Result != nil {
		t.Errorf("a result came about: %+v", shown.Result)
	}
	p := h.problem("PUT", "/reservations/"+r.ID, `{"id":"`+other.ID+`","type":"volume","created":"2026-01-01T00:00:00Z","state":"ok","error":"","data":null,"signature":""}`, 400)
	if p.Field != "id" {
		t.Errorf("problem is %+v, want field id", p)
	}
}

func TestBadDeletionsAndRenewals(t *testing.T) {
	h := start(t)
	user, foreign := newKey(t), newKey(t)
	key, c := h.node()
	r, other := h.push(user, key.ID()), h.push(user, key.ID())
	now := h.clock.now().UTC()
	ctx := t.Context()

	deletion := func(of *workload.Reservation, created time.Time) workload.Deletion {
		x := *of
		must(t, x.SignDeletion(workload.Deletion{Created: created}, user.Private()))
		return *x.Deletion
	}
	renewal := func(of *workload.Reservation, expires time.Time) workload.Renewal {
		x := *of
		must(t, x.SignRenewal(workload.Renewal{Expires: expires}, user.Private()))
		return *x.Renewal
	}
	hash, err := r.Hash()
	must(t, err)
	byAnother := workload.Deletion{Created: now}
	message, err := byAnother.SigningBytes(hash)
	must(t, err)
	byAnother.Signature = foreign.Sign(message)

	wantKind(t, c.Delete(ctx, r.ID, workload.Deletion{}), node.Refused)
	wantKind(t, c.Delete(ctx, r.ID, byAnother), node.Refused)
	wantKind(t, c.Delete(ctx, r.ID, deletion(other, now)), node.Refused)
	wantKind(t, c.Delete(ctx, r.ID, deletion(r, now.Add(time.Hour))), node.Invalid)
	wantKind(t, c.Delete(ctx, "99-1", deletion(r, now)), node.NotExist)

	wantKind(t, c.Renew(ctx, r.ID, renewal(other, now.Add(2*time.Hour))), node.Refused)
	wantKind(t, c.Renew(ctx, r.ID, renewal(r, now.Add(-time.Hour))), node.Invalid)
	wantKind(t, c.Renew(ctx, r.ID, renewal(r, now.Add(366*24*time.Hour))), node.Invalid)
	wantKind(t, c.Renew(ctx, r.ID, renewal(r, now.Add(time.Minute))), node.Refused)
	h.problem("PUT", "/reservations/"+r.ID+"/renewal", `{"expires":"2026-01-01T00:00:00Z","signature":"","why":1}`, 400)

	good := renewal(r, now.Add(3*time.Hour))
	must(t, c.Renew(ctx, r.ID, good))
	must(t, c.Renew(ctx, r.ID, good)) // it is idempotent
	wantKind(t, c.Renew(ctx, r.ID, renewal(r, now.Add(2*time.Hour))), node.Refused)
	head, _ := h.store.Nodes.Head(key.ID())
	first := deletion(r, now)
	must(t, c.Delete(ctx, r.ID, first))
	must(t, c.Delete(ctx, r.ID, deletion(r, now.Add(time.Second)))) // the first is kept
	after, _ := h.store.Nodes.Head(key.ID())
	if after != head+1 {
		t.Errorf("two deletions make %d changes, want 1", after-head)
	}
	shown, err := c.Get(ctx, r.ID)
	must(t, err)
	if !shown.Deletion.Created.Equal(first.Created) || !shown.Renewal.Expires.Equal(good.Expires) {
		t.Errorf("shown is %+v", shown)
	}
	wantKind(t, c.Renew(ctx, r.ID, renewal(r, now.Add(5*time.Hour))), node.Refused)
}

func TestListsHavePages(t *testing.T) {
	h := start(t)
	user := newKey(t)
	key, c := h.node()
	for range 3 {
		h.node()
	}
	h.pushMany(user, key.ID(), 105)
	h.push(newKey(t), key.ID())
	all, err := c.ListAll(t.Context(), user.ID())
	must(t, err)
	if len(all) != 105 {
		t.Fatalf("the user has %d reservations, want 105", len(all))
	}
	for i, r := range all {
		if r.ID != fmt.Sprintf("%d-1", i+1) {
			t.Fatalf("number %d is %s", i, r.ID)
		}
	}
	status, header, _ := h.do("GET", "/nodes?limit=3", "")
	if status != 200 || header.Get("Croft-Next") != "3" {
		t.Errorf("first page: %d, next %q", status, header.Get("Croft-Next"))
	}
	_, header, body := h.do("GET", "/nodes?limit=3&after=3", "")
	if header.Get("Croft-Next") != "" || body == "[]\n" {
		t.Errorf("last page: next %q, %s", header.Get("Croft-Next"), body)
	}
}
