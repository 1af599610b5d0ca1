package workload

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/strictjson"
)

// The signature domains of version 2. Each ends in a zero byte.
const (
	domainReservation = "croft-reservation-v2\x00"
	domainDeletion    = "croft-deletion-v2\x00"
	domainRenewal     = "croft-renewal-v2\x00"
	domainResult      = "croft-result-v2\x00"
	domainSecret      = "croft-secret-v2\x00"
)

// appendLP appends a 4-byte big-endian length and the bytes.
func appendLP[B ~string | ~[]byte](out []byte, b B) []byte {
	out = binary.BigEndian.AppendUint32(out, uint32(len(b)))
	return append(out, b...)
}

func appendI64(out []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(out, uint64(v))
}

// Canonical returns data of at most MaxData bytes in the form of RFC 8785 (JCS). It
// refuses data without one such form, see strictjson.Canonical.
func Canonical(data json.RawMessage) ([]byte, error) {
	return strictjson.Canonical("data", data, MaxData)
}

// SigningBytes are the bytes that the user signs.
//
// Version 1 is the seed's plain concatenation of node ID, user ID, type and
// data, data byte for byte as received. Version 2 covers all but the ID.
func (r *Reservation) SigningBytes() ([]byte, error) {
	switch v := r.DocumentVersion(); v {
	case V1:
		return r.signingBytesV1(), nil
	case V2:
		return r.signingBytesV2()
	default:
		return nil, errors.Errorf("cannot verify reservation: version is %d, must be %d or %d", v, V1, V2)
	}
}

func (r *Reservation) signingBytesV1() []byte {
	out := append([]byte(r.NodeID), r.User...)
	out = append(out, r.Type...)
	return append(out, r.Data...)
}

func (r *Reservation) signingBytesV2() ([]byte, error) {
	data, err := Canonical(r.Data)
	if err != nil {
		return nil, err
	}
	created, err := nanoseconds("created", r.Created)
	if err != nil {
		return nil, err
	}
	out := append([]byte{}, domainReservation...)
	out = appendLP(out, r.NodeID)
	out = appendLP(out, r.User)
	out = appendLP(out, r.Type)
	out = appendLP(out, data)
	out = appendI64(out, created)
	out = appendI64(out, int64(r.Duration))
	return appendLP(out, r.Nonce), nil
}

// Hash identifies the reservation whatever its ID: SHA-256 of SigningBytes. For
// version 1 it covers only version 1's signed bytes, so two equal requests have one hash.
func (r *Reservation) Hash() (Hash, error) {
	b, err := r.SigningBytes()
	if err != nil {
		return Hash{}, err
	}
	return sha256.Sum256(b), nil
}

// SigningBytes are the bytes that the user signs to delete the reservation of that hash.
func (d *Deletion) SigningBytes(h Hash) ([]byte, error) {
	created, err := nanoseconds("deletion.created", d.Created)
	if err != nil {
		return nil, err
	}
	return appendI64(append([]byte(domainDeletion), h[:]...), created), nil
}

// SigningBytes are the bytes that the user signs to renew the reservation of that hash.
func (n *Renewal) SigningBytes(h Hash) ([]byte, error) {
	expires, err := nanoseconds("renewal.expires", n.Expires)
	if err != nil {
		return nil, err
	}
	return appendI64(append([]byte(domainRenewal), h[:]...), expires), nil
}

// Bytes are the bytes that a node signs in version 1: the error's text, then
// the data ("null" when there is none). Nothing separates version 1 from a node's
// other signed bytes, so an error's text that begins like a domain is refused.
func (r *Result) Bytes() ([]byte, error) {
	if strings.HasPrefix(r.Error, "croft-") && strings.Contains(r.Error, "\x00") {
		return nil, errors.Errorf("cannot sign result %s as version 1: its error begins as a signature domain does", r.ID)
	}
	return append([]byte(r.Error), r.dataText()...), nil
}

// SigningBytes are the bytes that a node signs in version 2; NodeID and Hash
// must be set. An error's text that isn't UTF-8 or is too long is refused (see
// ErrorText): JSON would change the signed text.
func (r *Result) SigningBytes() ([]byte, error) {
	if len(r.Hash) != sha256.Size {
		return nil, errors.Errorf("cannot sign result %s: reservation_hash has %d bytes, must have %d", r.ID, len(r.Hash), sha256.Size)
	}
	if !utf8.ValidString(r.Error) || len(r.Error) > MaxErrorText {
		return nil, errors.Errorf("cannot sign result %s: its error must be UTF-8 of at most %d bytes", r.ID, MaxErrorText)
	}
	created, err := nanoseconds("created", r.Created)
	if err != nil {
		return nil, err
	}
	data, err := Canonical(r.dataText())
	if err != nil {
		return nil, err
	}
	out := append([]byte{}, domainResult...)
	out = appendLP(out, r.ID)
	out = append(out, r.Hash...)
	out = appendLP(out, r.NodeID)
	out = appendLP(out, r.Type)
	out = appendLP(out, r.State)
	out = appendLP(out, r.Error)
	out = appendLP(out, data)
	out = appendI64(out, created)
	out = appendLP(out, r.Birth)
	return appendI64(out, r.Sequence), nil
}

func (r *Result) dataText() []byte {
	if len(r.Data) == 0 {
		return []byte("null")
	}
	return r.Data
}
