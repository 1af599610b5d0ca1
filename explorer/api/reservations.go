package api

import (
	"net/http"
	"time"

	"github.com/croft-edge/croft/explorer/store"
	wire "github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// postReservation takes a signed reservation in and gives it its ID. The same
// document again is answered 200 with the ID that it has: a client that lost
// the first answer may push again, and a replay gets nothing new.
func (s *Server) postReservation(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r, documentBody)
	if err != nil {
		return err
	}
	in, err := workload.Decode(body)
	if err != nil {
		return node.WithKind(node.Invalid, err)
	}
	hash, err := s.checkReservation(r.PathValue("node"), in)
	if err != nil {
		return err
	}
	if err := s.limitKey(in.User); err != nil {
		return err
	}
	if err := s.limitNew(r, newBytes, s.newBytes, len(body)); err != nil {
		return err
	}
	pushed, err := s.store.Reservations.Reserve(r.Context(), store.Push{Reservation: in, Hash: hash, Body: body})
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

// checkReservation checks all that can be checked without the database.
func (s *Server) checkReservation(nodeID string, r *workload.Reservation) (workload.Hash, error) {
	for _, check := range []func() error{
		func() error { return s.checkForm(nodeID, r) },
		func() error { return s.checkTimes(r) },
		func() error { return s.checkSignature(r) },
		func() error { return s.checkData(r) },
	} {
		if err := check(); err != nil {
			return workload.Hash{}, err
		}
	}
	hash, err := r.Hash()
	return hash, node.WithKind(node.Invalid, err)
}

func (s *Server) checkForm(nodeID string, r *workload.Reservation) error {
	switch {
	case r.ID != "":
		return invalid("id", r.ID, "empty: the explorer gives it")
	case r.ToDelete:
		return invalid("to_delete", "true", "false or absent")
	case r.NodeID != nodeID:
		return invalid("node_id", r.NodeID, "the node of the address, "+limitText(nodeID))
	case !r.Type.Known():
		return invalid("type", r.Type, "container, volume, network, zdb, debug or kubernetes")
	case len(r.Data) == 0 || r.Data[0] != '{':
		return invalid("data", "another value", "an object")
	case r.Deletion != nil || r.Renewal != nil:
		return invalid("deletion and renewal", "given", "absent: they have addresses of their own")
	case r.DocumentVersion() == workload.V1 && !s.policy.AcceptSignatureV1:
		return refused("version", "1", "2: this explorer doesn't accept version 1, which signs neither dates nor deletion")
	}
	if _, err := sign.ParseID(r.User); err != nil {
		return invalid("user_id", r.User, "the base58 of a 32-byte ed25519 key")
	}
	return nil
}

func (s *Server) checkTimes(r *workload.Reservation) error {
	if err := s.notInFuture("created", r.Created); err != nil {
		return err
	}
	if r.Duration <= 0 || r.Duration > s.policy.MaxDuration {
		return invalid("duration", int64(r.Duration), "nanoseconds, more than 0 and at most "+s.policy.MaxDuration.String())
	}
	// created + duration can't overflow: the sum of both bounds is before 2262.
	if now := s.now(); r.ExpiredAt(now) {
		return invalid("duration", r.Duration, "so that it ends after the explorer's clock ("+stamp(now)+"); this one ended at "+stamp(r.Expires()))
	}
	return nil
}

func (s *Server) checkSignature(r *workload.Reservation) error {
	if err := workload.Verify(r); err != nil {
		return &fieldError{field: "signature", value: limitText(err.Error()), allowed: "the user's, over the bytes that are sent", kind: node.Invalid}
	}
	return nil
}

func (s *Server) checkData(r *workload.Reservation) error {
	if s.config.Validate == nil {
		return nil
	}
	return node.WithKind(node.Invalid, s.config.Validate(r))
}

// reservation finds the reservation that the address names.
func (s *Server) reservation(r *http.Request) (store.Row, error) {
	text := r.PathValue("id")
	id, err := workload.ParseID(text)
	if err != nil {
		return store.Row{}, invalid("id", text, "N-M, two decimal numbers")
	}
	if id.M != 1 || id.N > maxNumber {
		return store.Row{}, node.Errorf(node.NotExist, "cannot find reservation %s: there is none", id)
	}
	return s.store.Reservations.Get(r.Context(), id.N)
}

func (s *Server) getReservation(w http.ResponseWriter, r *http.Request) error {
	row, err := s.reservation(r)
	if err != nil {
		return err
	}
	body, err := wire.EncodeShown(&row.Reservation)
	if err != nil {
		return err
	}
	return s.send(w, r, append(body, '\n'))
}

func (s *Server) getReservations(w http.ResponseWriter, r *http.Request) error {
	q := query{values: r.URL.Query()}
	user, after, limit := q.values.Get("user"), q.number("after", 0, maxNumber), int(q.number("limit", 100, maxListed))
	if err := q.only("user", "after", "limit"); err != nil {
		return err
	}
	if _, err := sign.ParseID(user); err != nil {
		return invalid("user", user, "the base58 of a user's 32-byte ed25519 key")
	}
	rows, more, err := s.store.Reservations.OfUser(r.Context(), user, after, store.Bound{Rows: limit, Bytes: partBytes})
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
	return s.send(w, r, append(body, ']', '\n'))
}

func appendElement(body []byte, i int, element []byte) []byte {
	if i > 0 {
		body = append(body, ',')
	}
	return append(body, element...)
}

// deleteReservation keeps the user's signed wish to end it. Without one, it is
// the seed's form, which is accepted for version 1 documents only.
func (s *Server) deleteReservation(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r, documentBody)
	if err != nil {
		return err
	}
	row, err := s.reservation(r)
	if err != nil {
		return err
	}
	doc := row.Reservation.Reservation
	var deletion *workload.Deletion
	switch {
	case len(body) > 0:
		if deletion, err = s.checkDeletion(body, doc); err != nil {
			return err
		}
	case !s.policy.AcceptSignatureV1 || doc.DocumentVersion() != workload.V1:
		return node.Errorf(node.Refused, "cannot delete %s: a deletion signed by its user is needed as the body ({\"created\":…, \"signature\":…})", row.ID)
	}
	if err := s.store.Reservations.Delete(r.Context(), row.N, deletion); err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

func (s *Server) checkDeletion(body []byte, doc workload.Reservation) (*workload.Deletion, error) {
	d, err := workload.DecodeDeletion(body)
	if err != nil {
		return nil, node.WithKind(node.Invalid, err)
	}
	if err := s.notInFuture("created", d.Created); err != nil {
		return nil, err
	}
	doc.Deletion = d
	if err := workload.VerifyDeletion(&doc); err != nil {
		return nil, node.WithKind(node.Refused, err)
	}
	return d, s.limitKey(doc.User)
}

func (s *Server) putRenewal(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r, documentBody)
	if err != nil {
		return err
	}
	in, err := workload.DecodeRenewal(body)
	if err != nil {
		return node.WithKind(node.Invalid, err)
	}
	row, err := s.reservation(r)
	if err != nil {
		return err
	}
	now := s.now()
	if in.Expires.After(now.Add(s.policy.MaxDuration)) || !in.Expires.After(now) {
		return invalid("expires", in.Expires.Format(time.RFC3339), "after the explorer's clock ("+stamp(now)+") by at most "+s.policy.MaxDuration.String())
	}
	doc := row.Reservation.Reservation
	doc.Renewal = in
	if err := workload.VerifyRenewal(&doc); err != nil {
		return node.WithKind(node.Refused, err)
	}
	if err := s.limitKey(doc.User); err != nil {
		return err
	}
	if err := s.store.Reservations.Renew(r.Context(), row.N, *in); err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	return nil
}
