package explorer

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// ReservationClient pushes, reads and polls reservations, and sends the documents that their users
// and nodes have signed. It needs no signer: the documents carry their signatures.
type ReservationClient struct{ connection *connection }

// Reserve pushes a signed reservation and returns its ID. Pushing the same
// document again, after a lost answer for example, returns the same ID.
func (c ReservationClient) Reserve(ctx context.Context, r *workload.Reservation) (string, error) {
	body, err := workload.Encode(r)
	if err != nil {
		return "", node.WithKind(node.Invalid, err)
	}
	return c.ReserveRaw(ctx, r.NodeID, body)
}

// ReserveRaw pushes a document unchanged.
func (c ReservationClient) ReserveRaw(ctx context.Context, nodeID string, document []byte) (string, error) {
	k := call{what: "push reservation", method: http.MethodPost, path: "/reservations/" + url.PathEscape(nodeID), body: document}
	a, err := c.connection.do(ctx, k)
	if err != nil {
		return "", err
	}
	location := a.header.Get("Location")
	id, err := workload.ParseID(location[strings.LastIndexByte(location, '/')+1:])
	if err != nil {
		return "", garbage(k.what, limited(err.Error()))
	}
	return id.String(), nil
}

// Get returns a reservation with its result. NotExist when there is none.
func (c ReservationClient) Get(ctx context.Context, id string) (Reservation, error) {
	var raw json.RawMessage
	k := call{what: "get reservation " + id, path: reservationPath(id, "")}
	if _, err := c.connection.get(ctx, k, &raw); err != nil {
		return Reservation{}, err
	}
	out, err := DecodeShown(raw)
	if err != nil {
		return Reservation{}, garbage(k.what, limited(err.Error()))
	}
	if out.ID != id {
		return Reservation{}, garbage(k.what, "it is about another reservation")
	}
	return out, nil
}

// List returns one page of a user's reservations, oldest first, and the next page's After ("" at
// the end).
func (c ReservationClient) List(ctx context.Context, user string, p ListPage) ([]Reservation, string, error) {
	q := p.query()
	q.Set("user", user)
	var raw []json.RawMessage
	k := call{what: "list reservations", path: "/reservations", query: q, limit: maxPage}
	h, err := c.connection.get(ctx, k, &raw)
	if err != nil {
		return nil, "", err
	}
	out := make([]Reservation, len(raw))
	for i := range raw {
		if out[i], err = DecodeShown(raw[i]); err != nil {
			return nil, "", garbage(k.what, limited(err.Error()))
		}
	}
	return out, next(h), nil
}

// ListAll returns all of a user's reservations.
func (c ReservationClient) ListAll(ctx context.Context, user string) ([]Reservation, error) {
	return collect(func(p ListPage) ([]Reservation, string, error) { return c.List(ctx, user, p) })
}

// PollPage returns the node's changes after the cursor, and waits up to wait when there are none.
// When the page says Resync, the caller compares: reservations may be missing from it.
func (c ReservationClient) PollPage(ctx context.Context, nodeID string, cursor Cursor, wait time.Duration) (Page, error) {
	k := call{what: "poll", path: pollPath(nodeID), wait: wait, limit: maxPage, query: url.Values{
		"after": {strconv.FormatUint(cursor.Change, 10)}, "epoch": {cursor.Epoch}, "wait": {wait.String()},
	}}
	var out Page
	if _, err := c.connection.get(ctx, k, &out); err != nil {
		return Page{}, err
	}
	if why := out.wrong(cursor); why != "" {
		return Page{}, garbage(k.what, why)
	}
	return out, nil
}

// wrong is the reason why the page can't answer a poll at cursor.
func (p Page) wrong(cursor Cursor) string {
	switch {
	case p.Epoch == "":
		return "it has no epoch"
	case p.Next > p.Head:
		return "next is beyond head"
	case !p.Resync && p.Epoch != cursor.Epoch:
		return "it is of another epoch, without resync"
	case !p.Resync && p.Next < cursor.Change:
		return "it goes back, without resync"
	case p.Time.IsZero():
		return "it has no time"
	}
	for _, r := range p.Reservations {
		if len(r) == 0 || r[0] != '{' {
			return "a reservation isn't an object"
		}
	}
	return ""
}

// seedWait is how long the seed's explorer holds a poll.
const seedWait = 20 * time.Second

// PollFrom is the seed's poll: the node's reservations whose number is at least from, and those to
// be deleted; from 0 returns all.
func (c ReservationClient) PollFrom(ctx context.Context, nodeID string, from uint64) ([]*workload.Reservation, error) {
	k := call{what: "poll", path: pollPath(nodeID), wait: seedWait, limit: maxPage, query: url.Values{"from": {strconv.FormatUint(from, 10)}}}
	var raw []json.RawMessage
	if _, err := c.connection.get(ctx, k, &raw); err != nil {
		return nil, err
	}
	out := make([]*workload.Reservation, len(raw))
	for i := range raw {
		r, err := Document(raw[i])
		if err != nil {
			return nil, garbage(k.what, limited(err.Error()))
		}
		out[i] = r
	}
	return out, nil
}

// PutResult sends a node's signed result. The same one twice is fine, and one older than the
// explorer's is accepted and ignored. A result whose state is an end also marks the reservation as
// gone from the node.
func (c ReservationClient) PutResult(ctx context.Context, r *workload.Result) error {
	body, err := workload.EncodeResult(r)
	if err != nil {
		return node.WithKind(node.Invalid, err)
	}
	return c.connection.acknowledged(ctx, call{what: "send result of " + r.ID, method: http.MethodPut, path: reservationPath(r.ID, ""), body: body})
}

// PutDeleted reports that the workload is gone from the node; r is the signed result with the
// reason. A nil r is the seed's unsigned form.
func (c ReservationClient) PutDeleted(ctx context.Context, id string, r *workload.Result) error {
	k := call{what: "tell that " + id + " is gone", method: http.MethodPut, path: reservationPath(id, "/deleted")}
	if r != nil {
		var err error
		if k.body, err = workload.EncodeResult(r); err != nil {
			return node.WithKind(node.Invalid, err)
		}
	}
	return c.connection.acknowledged(ctx, k)
}

// Delete sends the user's signed deletion. A deletion without a signature is the seed's form.
func (c ReservationClient) Delete(ctx context.Context, id string, d workload.Deletion) error {
	k := call{what: "delete " + id, method: http.MethodDelete, path: reservationPath(id, "")}
	if len(d.Signature) == 0 {
		_, err := c.connection.do(ctx, k)
		return err
	}
	_, err := c.connection.write(ctx, k, d)
	return err
}

// Renew sends the user's signed renewal, which extends the workload's life.
func (c ReservationClient) Renew(ctx context.Context, id string, n workload.Renewal) error {
	_, err := c.connection.write(ctx, call{what: "renew " + id, method: http.MethodPut, path: reservationPath(id, "/renewal")}, n)
	return err
}

// Document decodes a reservation of a poll's page.
func Document(raw json.RawMessage) (*workload.Reservation, error) {
	out, _, err := workload.DecodeShown(raw)
	return out, node.WithKind(node.Invalid, err)
}

func reservationPath(id, rest string) string { return "/reservations/" + url.PathEscape(id) + rest }

func pollPath(nodeID string) string { return "/reservations/" + url.PathEscape(nodeID) + "/poll" }
