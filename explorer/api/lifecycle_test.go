package api

import (
	"strings"
	"testing"
	"time"

	wire "github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

func TestLifeOfAReservation(t *testing.T) {
	h := start(t)
	ctx := t.Context()
	user := newKey(t)
	key, nodeClient := h.node()
	anybody := h.anybody()

	// A node's first poll is answered with resync and an empty page.
	page, err := nodeClient.PollPage(ctx, key.ID(), wire.Cursor{}, 0)
	must(t, err)
	if !page.Resync || page.Next != 0 || page.Head != 0 || len(page.Reservations) != 0 {
		t.Fatalf("first page is %+v, want an empty one that starts again", page)
	}
	cursor := wire.Cursor{Epoch: page.Epoch, Change: page.Next}

	r := h.push(user, key.ID())
	if r.ID != "1-1" {
		t.Errorf("the first reservation is %s, want 1-1: numbers start at 1", r.ID)
	}
	page, err = nodeClient.PollPage(ctx, key.ID(), cursor, 0)
	must(t, err)
	if page.Resync || page.Next != 1 || len(page.Reservations) != 1 {
		t.Fatalf("page is %+v, want change 1", page)
	}
	got, err := wire.Document(page.Reservations[0])
	must(t, err)
	if err := workload.Verify(got); err != nil || got.ID != "1-1" {
		t.Fatalf("the node gets %+v: %v", got, err)
	}

	must(t, nodeClient.PutResult(ctx, h.result(key, r)))
	shown, err := anybody.Get(ctx, r.ID)
	must(t, err)
	hash, err := r.Hash()
	must(t, err)
	if shown.Result == nil || workload.VerifyResult(shown.Result, key.ID(), hash) != nil {
		t.Fatalf("shown is %+v, want the node's result", shown)
	}

	expires := h.clock.now().Add(48 * time.Hour).UTC()
	must(t, r.SignRenewal(workload.Renewal{Expires: expires}, user.Private()))
	must(t, anybody.Renew(ctx, r.ID, *r.Renewal))
	must(t, r.SignDeletion(workload.Deletion{Created: h.clock.now().UTC()}, user.Private()))
	must(t, anybody.Delete(ctx, r.ID, *r.Deletion))

	page, err = nodeClient.PollPage(ctx, key.ID(), wire.Cursor{Epoch: cursor.Epoch, Change: 1}, 0)
	must(t, err)
	if page.Next != 3 || len(page.Reservations) != 1 {
		t.Fatalf("page is %+v, want one reservation at change 3", page)
	}
	got, err = wire.Document(page.Reservations[0])
	must(t, err)
	if workload.VerifyDeletion(got) != nil || workload.VerifyRenewal(got) != nil || !got.ToDelete {
		t.Fatalf("the node gets %+v, want a deletion and a renewal that it can verify", got)
	}

	must(t, nodeClient.PutDeleted(ctx, r.ID, h.result(key, r, func(x *workload.Result) { x.State, x.Sequence = workload.StateDeleted, 2 })))
	shown, err = anybody.Get(ctx, r.ID)
	must(t, err)
	if shown.Result.State != workload.StateDeleted {
		t.Errorf("state is %s, want deleted", shown.Result.State)
	}
	list, err := anybody.ListAll(ctx, user.ID())
	must(t, err)
	if len(list) != 1 || list[0].ID != r.ID {
		t.Errorf("the user's list is %+v", list)
	}
}

// The explorer stores and returns the signed data byte for byte: version 1 signs these bytes.
func TestDataKeepsItsBytes(t *testing.T) {
	h := start(t, func(c *Config) { c.Policy.AcceptSignatureV1 = true })
	user := newKey(t)
	key, nodeClient := h.node()
	data := "{ \"size\" : 1,\n\t\"type\":\"SSD\" }"
	for _, version := range []int{workload.V1, workload.V2} {
		r := h.push(user, key.ID(), func(r *workload.Reservation) {
			r.Data, r.Version = []byte(data), version
		})
		_, _, body := h.do("GET", "/reservations/"+r.ID, "")
		if !strings.Contains(body, `"data":`+data+`,`) {
			t.Errorf("version %d: the explorer shows %s, want the data as %q", version, body, data)
		}
		shown, err := nodeClient.Get(t.Context(), r.ID)
		must(t, err)
		must(t, workload.Verify(&shown.Reservation))
	}
	page, err := nodeClient.PollPage(t.Context(), key.ID(), wire.Cursor{}, 0)
	must(t, err)
	for _, raw := range page.Reservations {
		r, err := wire.Document(raw)
		must(t, err)
		if string(r.Data) != data {
			t.Errorf("the node gets data %q, want %q", r.Data, data)
		}
		must(t, workload.Verify(r))
	}
	from, err := nodeClient.PollFrom(t.Context(), key.ID(), 0)
	must(t, err)
	for _, r := range from {
		must(t, workload.Verify(r))
	}
	if len(from) != 2 || len(page.Reservations) != 2 {
		t.Errorf("polls give %d and %d reservations, want 2", len(page.Reservations), len(from))
	}
}

func TestTheSamePushTwiceHasOneNumber(t *testing.T) {
	h := start(t)
	user := newKey(t)
	key, _ := h.node()
	r := h.volume(user, key.ID())
	doc, err := workload.Encode(r)
	must(t, err)
	status, header, _ := h.do("POST", "/reservations/"+key.ID(), string(doc))
	if status != 201 || header.Get("Location") != "/reservations/1-1" {
		t.Fatalf("first push: %d %s", status, header.Get("Location"))
	}
	status, header, _ = h.do("POST", "/reservations/"+key.ID(), string(doc))
	if status != 200 || header.Get("Location") != "/reservations/1-1" {
		t.Fatalf("second push: %d %s, want 200 and the same ID", status, header.Get("Location"))
	}
	page, err := h.anybody().PollPage(t.Context(), key.ID(), wire.Cursor{}, 0)
	must(t, err)
	if page.Head != 1 || len(page.Reservations) != 1 {
		t.Errorf("the node sees %+v, want one reservation", page)
	}
	if next := h.push(user, key.ID()); next.ID != "2-1" {
		t.Errorf("the next is %s, want 2-1", next.ID)
	}
}

// Version 1 doesn't sign dates: a replay of a signature with other dates is refused,
// not taken for a second reservation.
func TestVersion1ReplayWithOtherDates(t *testing.T) {
	h := start(t, func(c *Config) { c.Policy.AcceptSignatureV1 = true })
	user := newKey(t)
	key, _ := h.node()
	r := h.push(user, key.ID(), func(r *workload.Reservation) { r.Version = workload.V1 })
	longer := *r
	longer.ID, longer.Duration = "", 100*time.Hour
	_, err := h.anybody().Reserve(t.Context(), &longer)
	wantKind(t, err, node.Exist)
	doc, err := workload.Encode(&longer)
	must(t, err)
	if p := h.problem("POST", "/reservations/"+key.ID(), string(doc), 409); p.Existing != r.ID {
		t.Errorf("problem is %+v, want the existing ID", p)
	}
}
