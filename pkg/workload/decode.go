package workload

import (
	"encoding/json"

	"github.com/croft-edge/croft/pkg/fielderror"
	"github.com/croft-edge/croft/pkg/strictjson"
)

// Decode reads a whole reservation document from an untrusted sender. It refuses
// documents that two JSON libraries may read differently: names twice or in another
// case, unknown members, lone surrogates, integers in data beyond ±MaxInteger,
// a time that nanoseconds can't hold, and anything after the document. Data is
// kept byte for byte, times become UTC.
//
// It checks neither the signature (Verify) nor the request itself (Validate).
func Decode(body []byte) (*Reservation, error) {
	r, _, err := decode(body, strictjson.Document{})
	return r, err
}

// DecodeDraft is Decode for a document that isn't signed yet: any member may
// be absent, and created may be Go's zero time, as in the files that the
// seed's tools write.
func DecodeDraft(body []byte) (*Reservation, error) {
	r, _, err := decode(body, strictjson.Document{Draft: true})
	return r, err
}

// DecodeShown is Decode for a reservation as an explorer shows it, with the
// node's result (nil while there is none). Unknown members are ignored: a newer
// explorer may add some. That is safe because the user's request lies in signed
// members, and data itself is as strict as ever.
func DecodeShown(body []byte) (*Reservation, *Result, error) {
	return decode(body, strictjson.Document{Open: true})
}

func decode(body []byte, d strictjson.Document) (*Reservation, *Result, error) {
	if err := strictjson.Check(body, MaxDocument); err != nil {
		return nil, nil, err
	}
	var r Reservation
	var result *Result
	d.Fields = r.fields(d)
	if d.Open {
		d.Fields["result"] = strictjson.Field{Optional: true, Read: func(path string, raw json.RawMessage) error {
			result = &Result{}
			return strictjson.Document{Path: path, Fields: result.fields(), Open: true}.Read(raw)
		}}
	}
	if err := d.Read(body); err != nil {
		return nil, nil, err
	}
	if r.DocumentVersion() == V1 && r.Nonce != nil {
		return nil, nil, fielderror.New("nonce", fielderror.Words("there"), "absent in version %d", V1)
	}
	return &r, result, nil
}

func (r *Reservation) fields(d strictjson.Document) map[string]strictjson.Field {
	nested := func(path string, raw json.RawMessage, fields map[string]strictjson.Field) error {
		return strictjson.Document{Path: path, Fields: fields, Open: d.Open}.Read(raw)
	}
	return map[string]strictjson.Field{
		"id":        mayLack(strictjson.String(&r.ID)),
		"node_id":   strictjson.String(&r.NodeID),
		"user_id":   strictjson.String(&r.User),
		"type":      strictjson.String(&r.Type),
		"data":      strictjson.Data(&r.Data, MaxData),
		"created":   readTime(&r.Created, d.Draft),
		"duration":  strictjson.Int(&r.Duration),
		"signature": strictjson.Bytes(&r.Signature),
		"to_delete": mayLack(strictjson.Bool(&r.ToDelete)),
		"version":   {Optional: true, Read: r.readVersion},
		"nonce":     strictjson.Bytes(&r.Nonce),
		"deletion": {Optional: true, Read: func(path string, raw json.RawMessage) error {
			r.Deletion = &Deletion{}
			return nested(path, raw, r.Deletion.fields())
		}},
		"renewal": {Optional: true, Read: func(path string, raw json.RawMessage) error {
			r.Renewal = &Renewal{}
			return nested(path, raw, r.Renewal.fields())
		}},
	}
}

// readVersion refuses every version but the known ones; 0 too, which in a
// Reservation means that the document has none.
func (r *Reservation) readVersion(path string, raw json.RawMessage) error {
	if err := strictjson.Int(&r.Version).Read(path, raw); err != nil {
		return err
	}
	if r.Version != V1 && r.Version != V2 {
		return fielderror.New(path, r.Version, "%d or %d", V1, V2)
	}
	return nil
}

func mayLack(f strictjson.Field) strictjson.Field {
	f.Optional = true
	return f
}

func (d *Deletion) fields() map[string]strictjson.Field {
	return map[string]strictjson.Field{"created": readTime(&d.Created, false), "signature": strictjson.Bytes(&d.Signature)}
}

func (n *Renewal) fields() map[string]strictjson.Field {
	return map[string]strictjson.Field{"expires": readTime(&n.Expires, false), "signature": strictjson.Bytes(&n.Signature)}
}

// DecodeDeletion reads a deletion on its own, as strictly as Decode.
func DecodeDeletion(body []byte) (*Deletion, error) {
	var d Deletion
	return &d, decodeAlone(body, d.fields())
}

// DecodeRenewal reads a renewal on its own, as strictly as Decode.
func DecodeRenewal(body []byte) (*Renewal, error) {
	var n Renewal
	return &n, decodeAlone(body, n.fields())
}

// DecodeResult reads a result as a node sends it, as strictly as Decode; Data
// is kept byte for byte. A result of version 1 has no hash, birth and sequence.
func DecodeResult(body []byte) (*Result, error) {
	var r Result
	if err := decodeAlone(body, r.fields()); err != nil {
		return nil, err
	}
	if !KnownState(r.State) {
		return nil, fielderror.New("state", r.State, "ok, error, deleted, expired or evicted")
	}
	return &r, nil
}

func decodeAlone(body []byte, fields map[string]strictjson.Field) error {
	if err := strictjson.Check(body, MaxDocument); err != nil {
		return err
	}
	return strictjson.Document{Fields: fields}.Read(body)
}

func (r *Result) fields() map[string]strictjson.Field {
	return map[string]strictjson.Field{
		"type":             strictjson.String(&r.Type),
		"id":               strictjson.String(&r.ID),
		"created":          readTime(&r.Created, false),
		"state":            strictjson.String(&r.State),
		"error":            {Optional: true, Read: r.readError},
		"data":             mayLack(strictjson.Data(&r.Data, MaxData)),
		"signature":        strictjson.Bytes(&r.Signature),
		"reservation_hash": strictjson.Bytes(&r.Hash),
		"birth":            mayLack(strictjson.String(&r.Birth)),
		"sequence":         mayLack(strictjson.Int(&r.Sequence)),
	}
}

func (r *Result) readError(path string, raw json.RawMessage) error {
	if err := strictjson.String(&r.Error).Read(path, raw); err != nil {
		return err
	}
	if len(r.Error) > MaxErrorText {
		return fielderror.New(path, r.Error, "a text of at most %d bytes", MaxErrorText)
	}
	return nil
}
