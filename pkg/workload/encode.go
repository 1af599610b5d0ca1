package workload

import (
	"bytes"
	"encoding/json"

	"github.com/pkg/errors"
)

// Encode is the document's JSON: the seed's members in its order, then
// croft's own, data byte for byte as signed.
//
// Don't use encoding/json on a Reservation: it compacts data and writes < > &
// as escapes, and a version 1 signature is over these very bytes. A MarshalJSON
// method wouldn't help, for encoding/json does the same to its result; so there is
// none.
func Encode(r *Reservation) ([]byte, error) {
	o := object{}
	o.reservation(r)
	return o.close("reservation " + r.ID)
}

// EncodeShown is the JSON of a reservation as an explorer shows it: the
// document and the node's result, null when there is none.
func EncodeShown(r *Reservation, result *Result) ([]byte, error) {
	shown := []byte("null")
	if result != nil {
		var err error
		if shown, err = EncodeResult(result); err != nil {
			return nil, err
		}
	}
	o := object{}
	o.reservation(r)
	o.raw("result", shown)
	return o.close("reservation " + r.ID)
}

// EncodeResult is the result's JSON, data byte for byte, null when there is none.
func EncodeResult(r *Result) ([]byte, error) {
	o := object{}
	o.member("type", r.Type)
	o.member("id", r.ID)
	o.member("created", r.Created.UTC())
	o.member("state", r.State)
	o.member("error", r.Error)
	o.raw("data", r.dataText())
	o.member("signature", r.Signature)
	o.optional("reservation_hash", r.Hash, len(r.Hash) > 0)
	o.optional("birth", r.Birth, r.Birth != "")
	o.optional("sequence", r.Sequence, r.Sequence != 0)
	return o.close("result " + r.ID)
}

// object builds a JSON object member by member, in the order of the calls.
type object struct {
	buf bytes.Buffer
	err error
}

func (o *object) reservation(r *Reservation) {
	o.member("id", r.ID)
	o.member("node_id", r.NodeID)
	o.member("user_id", r.User)
	o.member("type", r.Type)
	if len(r.Data) > 0 {
		o.raw("data", r.Data)
	}
	o.member("created", r.Created.UTC())
	o.member("duration", r.Duration)
	o.optional("signature", r.Signature, len(r.Signature) > 0)
	o.member("to_delete", r.ToDelete)
	o.optional("version", r.Version, r.Version != 0)
	o.optional("nonce", r.Nonce, len(r.Nonce) > 0)
	if r.Deletion != nil {
		o.optional("deletion", Deletion{Created: r.Deletion.Created.UTC(), Signature: r.Deletion.Signature}, true)
	}
	if r.Renewal != nil {
		o.optional("renewal", Renewal{Expires: r.Renewal.Expires.UTC(), Signature: r.Renewal.Signature}, true)
	}
}

// member writes a value as the seed does: with encoding/json's escapes.
func (o *object) member(name string, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		o.fail(errors.Wrap(err, name))
		return
	}
	o.append(name, text)
}

func (o *object) optional(name string, value any, there bool) {
	if there {
		o.member(name, value)
	}
}

func (o *object) raw(name string, value []byte) {
	if err := checkVerbatim(value); err != nil {
		o.fail(errors.Wrap(err, name))
		return
	}
	o.append(name, value)
}

func (o *object) append(name string, value []byte) {
	sep := byte(',')
	if o.buf.Len() == 0 {
		sep = '{'
	}
	o.buf.WriteByte(sep)
	o.buf.WriteString(`"` + name + `":`)
	o.buf.Write(value)
}

func (o *object) fail(err error) {
	if o.err == nil {
		o.err = err
	}
}

func (o *object) close(what string) ([]byte, error) {
	if o.err != nil {
		return nil, errors.Wrapf(o.err, "cannot encode %s", what)
	}
	return append(o.buf.Bytes(), '}'), nil
}

// checkVerbatim refuses data that a document would change: data that isn't one JSON
// value, or has white space around it.
func checkVerbatim(data []byte) error {
	if !json.Valid(data) {
		return errors.New("it isn't one JSON value")
	}
	if len(bytes.TrimSpace(data)) != len(data) {
		return errors.New("it has white space around it")
	}
	return nil
}
