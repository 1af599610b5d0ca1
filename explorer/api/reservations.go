package api

import (
	"net/http"

	"github.com/croft-edge/croft/explorer/store"
	wire "github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// reservations answers requests about reservations.
type reservations struct {
	store *store.Reservations
	rules *rules
	rates *rates
	send  *sender
}

// post stores a signed reservation and gives it its ID. The same document again is answered 200
// with its existing ID: a client that lost the first answer may push again, and a replay gains
// nothing.
func (rs *reservations) post(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r, documentBody)
	if err != nil {
		return err
	}
	in, err := workload.Decode(body)
	if err != nil {
		return node.WithKind(node.Invalid, err)
	}
	hash, err := rs.rules.reservation(r.PathValue("node"), in)
	if err != nil {
		return err
	}
	if err := rs.rates.key(in.User); err != nil {
		return err
	}
	if err := rs.rates.brought(r, rs.rates.newBytes, len(body)); err != nil {
		return err
	}
	pushed, err := rs.store.Reserve(r.Context(), store.Push{Reservation: in, Hash: hash, Body: body})
	if err != nil {
		return err
	}
	id := workload.ID{N: pushed.N, M: 1}.String()
	status := http.StatusCreated
	if pushed.Existed {
		if !pushed.Created.Equal(in.Created) || pushed.Duration != in.Duration {
			return &conflict{existing: id, why: "cannot accept this: its signature is the one of " + id + " with other dates; version 1 doesn't sign created and duration, so this can't be told from a replay"}
		}
		status = http.StatusOK
	}
	w.Header().Set("Location", "/reservations/"+id)
	w.WriteHeader(status)
	return nil
}

// findReservation finds the reservation that the request's path names.
func findReservation(from *store.Reservations, r *http.Request) (store.Row, error) {
	text := r.PathValue("id")
	id, err := workload.ParseID(text)
	if err != nil {
		return store.Row{}, invalid("id", text, "N-M, two decimal numbers")
	}
	if id.M != 1 || id.N > maxNumber {
		return store.Row{}, node.Errorf(node.NotExist, "cannot find reservation %s: there is none", id)
	}
	return from.Get(r.Context(), id.N)
}

func (rs *reservations) get(w http.ResponseWriter, r *http.Request) error {
	row, err := findReservation(rs.store, r)
	if err != nil {
		return err
	}
	body, err := wire.EncodeShown(&row.Reservation)
	if err != nil {
		return err
	}
	return rs.send.body(w, r, append(body, '\n'))
}

func (rs *reservations) list(w http.ResponseWriter, r *http.Request) error {
	q := query{values: r.URL.Query()}
	user, after, limit := q.values.Get("user"), q.number("after", 0, maxNumber), int(q.number("limit", 100, maxListed))
	if err := q.only("user", "after", "limit"); err != nil {
		return err
	}
	if _, err := sign.ParseID(user); err != nil {
		return invalid("user", user, "the base58 of a user's 32-byte ed25519 key")
	}
	rows, more, err := rs.store.OfUser(r.Context(), user, after, store.Bound{Rows: limit, Bytes: partBytes})
	if err != nil {
		return err
	}
	if more {
		setNext(w, rows[len(rows)-1].N)
	}
	body := []byte{'['}
	for i := range rows {
		shown, err := wire.EncodeShown(&rows[i].Reservation)
		if err != nil {
			return err
		}
		body = appendElement(body, i, shown)
	}
	return rs.send.body(w, r, append(body, ']', '\n'))
}

func appendElement(body []byte, i int, element []byte) []byte {
	if i > 0 {
		body = append(body, ',')
	}
	return append(body, element...)
}

// delete stores the user's signed deletion. An empty body is the seed's form, which is accepted for
// version 1 documents only.
func (rs *reservations) delete(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r, documentBody)
	if err != nil {
		return err
	}
	row, err := findReservation(rs.store, r)
	if err != nil {
		return err
	}
	doc := row.Reservation.Reservation
	var deletion *workload.Deletion
	switch {
	case len(body) > 0:
		if deletion, err = rs.rules.deletion(body, doc); err != nil {
			return err
		}
		if err := rs.rates.key(doc.User); err != nil {
			return err
		}
	case !rs.rules.acceptV1 || doc.DocumentVersion() != workload.V1:
		return node.Errorf(node.Refused, "cannot delete %s: a deletion signed by its user is needed as the body ({\"created\":…, \"signature\":…})", row.ID)
	}
	if err := rs.store.Delete(r.Context(), row.N, deletion); err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

func (rs *reservations) putRenewal(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r, documentBody)
	if err != nil {
		return err
	}
	in, err := workload.DecodeRenewal(body)
	if err != nil {
		return node.WithKind(node.Invalid, err)
	}
	row, err := findReservation(rs.store, r)
	if err != nil {
		return err
	}
	doc := row.Reservation.Reservation
	if err := rs.rules.renewal(in, doc); err != nil {
		return err
	}
	if err := rs.rates.key(doc.User); err != nil {
		return err
	}
	if err := rs.store.Renew(r.Context(), row.N, *in); err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	return nil
}
