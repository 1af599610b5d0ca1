package explorer

import (
	"encoding/json"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/workload"
)

// EncodeReservation is the document's JSON, with Data byte for byte: what was
// signed is what is sent. (encoding/json would compact and escape it, and a
// version 1 signature is over these very bytes.)
func EncodeReservation(r *workload.Reservation) ([]byte, error) {
	o := object{}
	o.reservation(r)
	out, err := o.close()
	return out, errors.Wrapf(err, "cannot encode reservation %s", r.ID)
}

// EncodeShown is the JSON of a reservation as the explorer shows it: the
// document, then its result, null when there is none.
func EncodeShown(r *Reservation) ([]byte, error) {
	result := []byte("null")
	if r.Result != nil {
		var err error
		if result, err = EncodeResult(r.Result); err != nil {
			return nil, err
		}
	}
	o := object{}
	o.reservation(&r.Reservation)
	o.raw("result", result)
	out, err := o.close()
	return out, errors.Wrapf(err, "cannot encode reservation %s", r.ID)
}

// EncodeResult is the result's JSON, with Data byte for byte.
func EncodeResult(r *workload.Result) ([]byte, error) {
	data := r.Data
	if len(data) == 0 {
		data = json.RawMessage("null")
	}
	o := object{}
	o.member("type", r.Type)
	o.member("id", r.ID)
	o.member("created", r.Created)
	o.member("state", r.State)
	o.member("error", r.Error)
	o.raw("data", data)
	o.member("signature", r.Signature)
	o.optional("reservation_hash", r.Hash, len(r.Hash) > 0)
	o.optional("birth", r.Birth, r.Birth != "")
	o.optional("sequence", r.Sequence, r.Sequence != 0)
	out, err := o.close()
	return out, errors.Wrapf(err, "cannot encode result %s", r.ID)
}

// object builds a JSON object member by member, in the order of the calls.
type object struct {
	buf []byte
	err error
}

func (o *object) reservation(r *workload.Reservation) {
	o.member("id", r.ID)
	o.member("node_id", r.NodeID)
	o.member("user_id", r.User)
	o.member("type", r.Type)
	if len(r.Data) > 0 {
		o.raw("data", r.Data)
	}
	o.member("created", r.Created)
	o.member("duration", r.Duration)
	o.optional("signature", r.Signature, len(r.Signature) > 0)
	o.member("to_delete", r.ToDelete)
	o.optional("version", r.Version, r.Version != 0)
	o.optional("nonce", r.Nonce, len(r.Nonce) > 0)
	o.optional("deletion", r.Deletion, r.Deletion != nil)
	o.optional("renewal", r.Renewal, r.Renewal != nil)
}

func (o *object) member(name string, value any) {
	b, err := json.Marshal(value)
	if err != nil {
		o.fail(errors.Wrap(err, name))
		return
	}
	o.append(name, b)
}

func (o *object) optional(name string, value any, there bool) {
	if there {
		o.member(name, value)
	}
}

func (o *object) raw(name string, value json.RawMessage) {
	if !json.Valid(value) {
		o.fail(errors.Errorf("%s isn't JSON", name))
		return
	}
	o.append(name, value)
}

func (o *object) append(name string, value []byte) {
	sep := byte(',')
	if len(o.buf) == 0 {
		sep = '{'
	}
	o.buf = append(o.buf, sep, '"')
	o.buf = append(o.buf, name...)
	o.buf = append(o.buf, '"', ':')
	o.buf = append(o.buf, value...)
}

func (o *object) fail(err error) {
	if o.err == nil {
		o.err = err
	}
}

func (o *object) close() ([]byte, error) {
	if o.err != nil {
		return nil, o.err
	}
	return append(o.buf, '}'), nil
}
