package store

import (
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/versioned"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/lifecycle"
)

// document is the JSON form of a record. The data of reservation and result are base64
// members of their own, because JSON nested in JSON doesn't keep signed bytes exactly.
type document struct {
	Reservation *workload.Reservation `json:"reservation"`
	Data        []byte                `json:"data,omitempty"`
	Hash        string                `json:"hash"`
	Name        string                `json:"name,omitempty"`
	Phase       Phase                 `json:"phase"`
	Result      *workload.Result      `json:"result,omitempty"`
	ResultData  []byte                `json:"result_data,omitempty"`
	Delivered   bool                  `json:"delivered"`
	End         workload.State        `json:"end,omitempty"`

	Admitted   bool              `json:"admitted,omitempty"`
	Begun      bool              `json:"begun,omitempty"`
	Uncertain  bool              `json:"uncertain,omitempty"`
	Removing   bool              `json:"removing,omitempty"`
	Older      bool              `json:"older,omitempty"`
	Unlabelled bool              `json:"unlabelled,omitempty"`
	Bound      map[string]string `json:"bound,omitempty"`
	Pending    *workload.Renewal `json:"pending,omitempty"`

	Attempts    int       `json:"attempts,omitempty"`
	Cause       string    `json:"cause,omitempty"`
	NextAttempt time.Time `json:"next_attempt,omitzero"`
	Accepted    time.Time `json:"accepted,omitzero"`
	Deployed    time.Time `json:"deployed,omitzero"`
	Since       moment    `json:"since,omitzero"`
	Holding     moment    `json:"holding,omitzero"`

	// Refusal is major 2's flag for Dismissed; it is only read.
	Refusal bool `json:"refusal,omitempty"`
}

// moment is the JSON form of a lifecycle.Since.
type moment struct {
	Floor  time.Time     `json:"floor,omitzero"`
	Uptime time.Duration `json:"uptime,omitempty"`
	Known  bool          `json:"known,omitempty"`
	Level  clock.Level   `json:"level,omitempty"`
}

// encode makes the bytes of a record's file.
func encode(r Record) ([]byte, error) {
	reservation := *r.Reservation
	reservation.Data = nil
	d := document{
		Reservation: &reservation, Data: r.Reservation.Data, Hash: hex.EncodeToString(r.Hash[:]), Phase: r.Phase,
		Delivered: r.Delivered, End: r.End,
		Admitted: r.Admitted, Begun: r.Begun, Uncertain: r.Uncertain, Removing: r.Removing, Older: r.Older,
		Unlabelled: r.Unlabelled, Pending: r.Pending,
		Attempts: r.Attempts, Cause: r.Cause, NextAttempt: r.NextAttempt, Accepted: r.Accepted, Deployed: r.Deployed,
		Since: moment(r.Since), Holding: moment(r.Holding),
	}
	if r.Name != (NetworkKey{}) {
		d.Name = hex.EncodeToString(r.Name[:])
	}
	if len(r.Bound) > 0 {
		d.Bound = make(map[string]string, len(r.Bound))
	}
	for id, h := range r.Bound {
		d.Bound[id] = hex.EncodeToString(h[:])
	}
	if r.Result != nil {
		result := *r.Result
		d.Result, d.ResultData, result.Data = &result, result.Data, nil
	}
	body, err := json.Marshal(d)
	if err != nil {
		return nil, errors.Wrapf(err, "cannot write record %s", r.ID())
	}
	return seal(body), nil
}

// decode reads a record's file: croft's own, an older croft's, or the seed's.
func decode(file []byte) (Record, error) {
	v, body := versioned.Split(file)
	if v.Major < oldestSealed {
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
	r, err := d.record()
	if err != nil || v.Major == fileVersion().Major {
		return r, err
	}
	return migrate(r, d.Refusal), nil
}

// record converts the document to a Record.
func (d document) record() (Record, error) {
	if d.Reservation == nil {
		return Record{}, errors.New("it holds no reservation")
	}
	r := Record{
		Reservation: d.Reservation, Phase: d.Phase, Result: d.Result, Delivered: d.Delivered, End: d.End,
		Admitted: d.Admitted, Begun: d.Begun, Uncertain: d.Uncertain, Removing: d.Removing, Older: d.Older,
		Unlabelled: d.Unlabelled, Pending: d.Pending,
		Attempts: d.Attempts, Cause: d.Cause, NextAttempt: d.NextAttempt, Accepted: d.Accepted, Deployed: d.Deployed,
		Since: lifecycle.Since(d.Since), Holding: lifecycle.Since(d.Holding),
	}
	r.Reservation.Data = d.Data
	if r.Result != nil {
		r.Result.Data = d.ResultData
		r.Result.NodeID = r.Reservation.NodeID
	}
	if err := readHash("hash", d.Hash, &r.Hash); err != nil {
		return Record{}, err
	}
	if d.Name != "" {
		if err := readHash("name", d.Name, (*workload.Hash)(&r.Name)); err != nil {
			return Record{}, err
		}
	}
	if len(d.Bound) > 0 {
		r.Bound = make(map[string]workload.Hash, len(d.Bound))
	}
	for id, text := range d.Bound {
		var h workload.Hash
		if err := readHash("bound", text, &h); err != nil {
			return Record{}, err
		}
		r.Bound[id] = h
	}
	return r, nil
}

func readHash(member, text string, h *workload.Hash) error {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(h) {
		return errors.Errorf("its %s is %q", member, text)
	}
	copy(h[:], raw)
	return nil
}

// check validates a record for storing and returns its ID.
func check(r Record) (workload.ID, error) {
	if r.Reservation == nil {
		return workload.ID{}, errors.New("cannot store a record without a reservation")
	}
	id, err := workload.ParseID(r.Reservation.ID)
	if err != nil {
		return workload.ID{}, err
	}
	if !r.Phase.Known() {
		return workload.ID{}, errors.Errorf("cannot store record %s: phase is %q", id, r.Phase)
	}
	if r.Hash == (workload.Hash{}) {
		return workload.ID{}, errors.Errorf("cannot store record %s: it has no hash", id)
	}
	return id, nil
}
