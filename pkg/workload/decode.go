package workload

import "encoding/json"

// Decode reads a whole reservation document as somebody pushes it. It refuses
// what two JSON libraries may read differently: names twice or in another
// case, unknown members, lone surrogates, integers in data beyond ±MaxInteger,
// a time that nanoseconds can't hold, and anything after the document. Data is
// kept byte for byte, times become UTC.
//
// It doesn't look at the signature (Verify) nor at what is asked for (Validate).
func Decode(body []byte) (*Reservation, error) {
	r, _, err := decode(body, document{})
	return r, err
}

// DecodeDraft is Decode for a document that isn't signed yet: any member may
// be absent, and created may be Go's zero time, as in the files that the
// seed's tools write.
func DecodeDraft(body []byte) (*Reservation, error) {
	r, _, err := decode(body, document{draft: true})
	return r, err
}

// DecodeShown is Decode for a reservation as an explorer shows it, with the
// node's result (nil while there is none). Members that it doesn't know are
// ignored: a newer explorer may say more about a reservation. That is safe
// because what the user asked for lies in members that are signed, and data
// itself is as strict as ever.
func DecodeShown(body []byte) (*Reservation, *Result, error) {
	return decode(body, document{open: true})
}

func decode(body []byte, d document) (*Reservation, *Result, error) {
	if err := checkText(body); err != nil {
		return nil, nil, err
	}
	var r Reservation
	var result *Result
	d.fields = r.fields(d)
	if d.open {
		d.fields["result"] = field{optional: true, read: func(path string, raw json.RawMessage) error {
			result = &Result{}
			return document{path: path, fields: result.fields(), open: true}.read(raw)
		}}
	}
	if err := d.read(body); err != nil {
		return nil, nil, err
	}
	if r.DocumentVersion() == V1 && r.Nonce != nil {
		return nil, nil, refuse("nonce", words("there"), "absent in version %d", V1)
	}
	return &r, result, nil
}

func (r *Reservation) fields(d document) map[string]field {
	nested := func(path string, raw json.RawMessage, fields map[string]field) error {
		return document{path: path, fields: fields, open: d.open}.read(raw)
	}
	return map[string]field{
		"id":        mayLack(readString(&r.ID)),
		"node_id":   readString(&r.NodeID),
		"user_id":   readString(&r.User),
		"type":      readString(&r.Type),
		"data":      readData(&r.Data),
		"created":   readTime(&r.Created, d.draft),
		"duration":  readInt(&r.Duration),
		"signature": readBytes(&r.Signature),
		"to_delete": mayLack(readBool(&r.ToDelete)),
		"version":   {optional: true, read: r.readVersion},
		"nonce":     readBytes(&r.Nonce),
		"deletion": {optional: true, read: func(path string, raw json.RawMessage) error {
			r.Deletion = &Deletion{}
			return nested(path, raw, r.Deletion.fields())
		}},
		"renewal": {optional: true, read: func(path string, raw json.RawMessage) error {
			r.Renewal = &Renewal{}
			return nested(path, raw, r.Renewal.fields())
		}},
	}
}

// readVersion refuses every version but the known ones; 0 too, which in a
// Reservation means that the document doesn't say.
func (r *Reservation) readVersion(path string, raw json.RawMessage) error {
	if err := readInt(&r.Version).read(path, raw); err != nil {
		return err
	}
	if r.Version != V1 && r.Version != V2 {
		return refuse(path, r.Version, "%d or %d", V1, V2)
	}
	return nil
}

func mayLack(f field) field {
	f.optional = true
	return f
}

func (d *Deletion) fields() map[string]field {
	return map[string]field{"created": readTime(&d.Created, false), "signature": readBytes(&d.Signature)}
}

func (n *Renewal) fields() map[string]field {
	return map[string]field{"expires": readTime(&n.Expires, false), "signature": readBytes(&n.Signature)}
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
		return nil, refuse("state", r.State, "ok, error, deleted, expired or evicted")
	}
	return &r, nil
}

func decodeAlone(body []byte, fields map[string]field) error {
	if err := checkText(body); err != nil {
		return err
	}
	return document{fields: fields}.read(body)
}

func (r *Result) fields() map[string]field {
	return map[string]field{
		"type":             readString(&r.Type),
		"id":               readString(&r.ID),
		"created":          readTime(&r.Created, false),
		"state":            readString(&r.State),
		"error":            {optional: true, read: r.readError},
		"data":             mayLack(readData(&r.Data)),
		"signature":        readBytes(&r.Signature),
		"reservation_hash": readBytes(&r.Hash),
		"birth":            mayLack(readString(&r.Birth)),
		"sequence":         mayLack(readInt(&r.Sequence)),
	}
}

func (r *Result) readError(path string, raw json.RawMessage) error {
	if err := readString(&r.Error).read(path, raw); err != nil {
		return err
	}
	if len(r.Error) > MaxErrorText {
		return refuse(path, r.Error, "a text of at most %d bytes", MaxErrorText)
	}
	return nil
}
