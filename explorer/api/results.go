package api

import (
	"net/http"

	"github.com/croft-edge/croft/explorer/store"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// maxBirth is the longest ID of a node's store.
const maxBirth = 64

// results stores the nodes' results.
type results struct {
	store        *store.Results
	reservations *store.Reservations
	rates        *rates
	// acceptUnsigned accepts results of nodes that run the seed's code.
	acceptUnsigned bool
}

// put stores a node's result. Sending the same one twice is fine; one older than the stored one is
// accepted and dropped.
func (rs *results) put(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r, resultBody)
	if err != nil {
		return err
	}
	if _, err := rs.keep(r, body); err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// putDeleted stores a node's report that the workload is gone: the signed result with the reason,
// or an empty body in the seed's form.
func (rs *results) putDeleted(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r, resultBody)
	if err != nil {
		return err
	}
	if len(body) > 0 {
		state, err := rs.keep(r, body)
		if err != nil {
			return err
		}
		if !workload.Ended(state) {
			return invalid("state", state, "deleted, expired or evicted")
		}
		w.WriteHeader(http.StatusOK)
		return nil
	}
	if !rs.acceptUnsigned {
		return node.Errorf(node.Refused, "cannot accept that this is deleted: the node's signed result is needed as the body")
	}
	row, err := findReservation(rs.reservations, r)
	if err != nil {
		return err
	}
	if row.DocumentVersion() != workload.V1 {
		return node.Errorf(node.Refused, "cannot accept that %s is deleted: of a version 2 reservation the node's signed result is needed", row.ID)
	}
	if err := rs.store.Gone(r.Context(), row.N); err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

func (rs *results) keep(r *http.Request, body []byte) (workload.State, error) {
	in, err := workload.DecodeResult(body)
	if err != nil {
		return "", node.WithKind(node.Invalid, err)
	}
	row, err := findReservation(rs.reservations, r)
	if err != nil {
		return "", err
	}
	if err := rs.check(in, row); err != nil {
		return "", err
	}
	if err := rs.rates.result(r, in, row.NodeID); err != nil {
		return "", err
	}
	return in.State, rs.store.Put(r.Context(), store.Answer{N: row.N, Result: in, Body: body})
}

func (rs *results) check(in *workload.Result, row store.Row) error {
	switch {
	case in.ID != row.ID:
		return invalid("id", in.ID, row.ID+", as in the address")
	case in.Type != row.Type:
		return invalid("type", in.Type, string(row.Type)+", the reservation's")
	}
	if len(in.Hash) == 0 {
		return rs.checkV1(in, row)
	}
	switch {
	case in.Birth == "" || len(in.Birth) > maxBirth:
		return invalid("birth", in.Birth, "1 to 64 characters")
	case in.Sequence < 1:
		return invalid("sequence", in.Sequence, "at least 1")
	}
	hash, err := row.Hash()
	if err != nil {
		return err
	}
	return node.WithKind(node.Refused, workload.VerifyResult(in, row.NodeID, hash))
}

// checkV1 checks a result of a node that runs the seed's code. Its signature covers error and data
// alone and fits any reservation; so it is accepted only where the operator allows it, and for
// version 1 reservations.
func (rs *results) checkV1(in *workload.Result, row store.Row) error {
	if !rs.acceptUnsigned {
		return refused("reservation_hash", "absent", "there: this explorer doesn't accept results of version 1")
	}
	if row.DocumentVersion() != workload.V1 {
		return refused("reservation_hash", "absent", "there in the result of a version 2 reservation")
	}
	if in.Birth != "" || in.Sequence != 0 {
		return invalid("birth", in.Birth, "absent, as sequence, in version 1")
	}
	if len(in.Signature) == 0 {
		return nil
	}
	message, err := in.Bytes()
	if err != nil {
		return err
	}
	return node.WithKind(node.Refused, sign.Verify(row.NodeID, message, in.Signature))
}
