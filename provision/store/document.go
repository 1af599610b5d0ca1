package store

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/versioned"
	"github.com/croft-edge/croft/pkg/workload"
)

// document is a record in its file. The data of reservation and result stand
// beside them in base64: what was signed is kept byte for byte, which JSON in
// JSON isn't.
type document struct {
	Reservation *workload.Reservation `json:"reservation"`
	Data        []byte                `json:"data,omitempty"`
	Hash        string                `json:"hash"`
	Phase       Phase                 `json:"phase"`
	Result      *workload.Result      `json:"result,omitempty"`
	ResultData  []byte                `json:"result_data,omitempty"`
	Delivered   bool                  `json:"delivered"`
	End         workload.State        `json:"end,omitempty"`
	Attempts    int                   `json:"attempts,omitempty"`
	Cause       string                `json:"cause,omitempty"`
	NextAttempt time.Time             `json:"next_attempt,omitzero"`
	Accepted    time.Time             `json:"accepted,omitzero"`
	Deployed    time.Time             `json:"deployed,omitzero"`
	Refusal     bool                  `json:"refusal,omitempty"`
}

// encode makes the bytes of a record's file.
func encode(r Record) ([]byte, error) {
	r = r.Clone()
	d := document{
		Reservation: r.Reservation, Data: r.Reservation.Data,
		Hash: hex.EncodeToString(r.Hash[:]), Phase: r.Phase,
		Result: r.Result, Delivered: r.Delivered, End: r.End,
		Attempts: r.Attempts, Cause: r.Cause, NextAttempt: r.NextAttempt,
		Accepted: r.Accepted, Deployed: r.Deployed, Refusal: r.Refusal,
	}
	d.Reservation.Data = nil
	if d.Result != nil {
		d.ResultData, d.Result.Data = d.Result.Data, nil
	}
	body, err := json.Marshal(d)
	if err != nil {
		return nil, errors.Wrapf(err, "cannot write record %s", r.ID())
	}
	return seal(body), nil
}

// decode reads a record's file: croft's own, or the seed's.
func decode(file []byte) (Record, error) {
	if v, body := versioned.Split(file); v.Major < fileVersion().Major {
		return decodeSeed(v, body)
	}
	body, err := open(file)
	if err != nil {
		return Record{}, err
	}
	var d document
	if err := json.Unmarshal(body, &d); err != nil {
		return Record{}, errors.Wrap(err, "it isn't JSON of a record")
	}
	r := Record{
		Reservation: d.Reservation, Phase: d.Phase, Result: d.Result,
		Delivered: d.Delivered, End: d.End, Attempts: d.Attempts, Cause: d.Cause,
		NextAttempt: d.NextAttempt, Accepted: d.Accepted, Deployed: d.Deployed, Refusal: d.Refusal,
	}
	if r.Reservation == nil {
		return Record{}, errors.New("it holds no reservation")
	}
	r.Reservation.Data = d.Data
	if r.Result != nil {
		r.Result.Data = d.ResultData
		r.Result.NodeID = r.Reservation.NodeID
	}
	hash, err := hex.DecodeString(d.Hash)
	if err != nil || len(hash) != len(r.Hash) {
		return Record{}, errors.Errorf("its hash is %q", d.Hash)
	}
	copy(r.Hash[:], hash)
	return r, nil
}

// decodeSeed reads a file of the seed's store: the JSON of a reservation that
// is deployed, after a header 1.0.0 or none.
func decodeSeed(v versioned.Version, body []byte) (Record, error) {
	if (v != versioned.Version{}) && (v != versioned.Version{Major: 1}) {
		return Record{}, errors.Errorf("its version is %s; 0.0.0, 1.0.0 and %s can be read", v, fileVersion())
	}
	var r workload.Reservation
	if err := json.Unmarshal(bytes.TrimSpace(body), &r); err != nil {
		return Record{}, errors.Wrap(err, "it isn't JSON of a reservation")
	}
	hash, err := r.Hash()
	if err != nil {
		return Record{}, err
	}
	return Record{Reservation: &r, Hash: hash, Phase: Deployed, Delivered: true, Accepted: r.Created, Deployed: r.Created}, nil
}

// check returns the ID of a record that may be stored.
func check(r Record) (workload.ID, error) {
	if r.Reservation == nil {
		return workload.ID{}, errors.New("cannot store a record without a reservation")
	}
	id, err := workload.ParseID(r.Reservation.ID)
	if err != nil {
		return workload.ID{}, err
	}
	switch r.Phase {
	case Intent, Retry, Deployed, Failed, Leaving, Ended:
	default:
		return workload.ID{}, errors.Errorf("cannot store record %s: phase is %q", id, r.Phase)
	}
	if r.Hash == (workload.Hash{}) {
		return workload.ID{}, errors.Errorf("cannot store record %s: it has no hash", id)
	}
	if r.Refusal && r.Phase != Failed {
		return workload.ID{}, errors.Errorf("cannot store record %s: a refusal's phase is %q, must be %q", id, r.Phase, Failed)
	}
	return id, nil
}
