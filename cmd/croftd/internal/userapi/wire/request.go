package wire

import (
	"encoding/binary"
	"net/http"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/nodeapi"
)

// headers are the names of the headers that are passed to the agent; it needs no others.
func headers() []string {
	return []string{explorer.HeaderUser, explorer.HeaderTimestamp, nodeapi.HeaderNonce, explorer.HeaderSignature, "Upgrade"}
}

const (
	// maxValues is how many values of one header are passed on, maxMethod the maximum length of a
	// method, in bytes: longer ones are cut, and then fail the signature check.
	maxValues = 8
	maxMethod = 32
)

// The state of a request's body.
const (
	BodyWhole byte = iota
	BodyTooLarge
	BodyUnread
)

// Asked is a request as received.
type Asked struct {
	Method string
	Target string
	Header http.Header
	// State says whether Body is complete.
	State byte
	Body  []byte
}

// Encode makes a Request's payload; ok is false when that exceeds MaxRequest.
func (a Asked) Encode() (out []byte, ok bool) {
	out = put(out, []byte(a.Method[:min(len(a.Method), maxMethod)]))
	out = put(out, []byte(a.Target))
	for _, name := range headers() {
		values := a.Header.Values(name)
		values = values[:min(len(values), maxValues)]
		out = append(out, byte(len(values)))
		for _, v := range values {
			out = put(out, []byte(v))
		}
	}
	out = put(append(out, a.State), a.Body)
	return out, len(out) <= MaxRequest
}

func put(out, text []byte) []byte {
	return append(binary.BigEndian.AppendUint32(out, uint32(len(text))), text...)
}

// Decode reads a Request's payload, which must end there.
func Decode(raw []byte) (Asked, error) {
	r := reader{left: raw}
	a := Asked{Method: string(r.text()), Target: string(r.text()), Header: http.Header{}}
	for _, name := range headers() {
		n := r.byte()
		if n > maxValues {
			r.bad = true
		}
		for ; n > 0 && !r.bad; n-- {
			a.Header.Add(name, string(r.text()))
		}
	}
	a.State, a.Body = r.byte(), r.text()
	if r.bad || len(r.left) > 0 || len(a.Method) > maxMethod || a.Method == "" || a.State > BodyUnread || len(a.Body) > MaxBody {
		return Asked{}, errors.New("cannot take a request of the door: it isn't one")
	}
	return a, nil
}

// reader decodes the encoding of put.
type reader struct {
	left []byte
	bad  bool
}

func (r *reader) take(n uint32) []byte {
	if r.bad || uint64(n) > uint64(len(r.left)) {
		r.bad = true
		return nil
	}
	out := r.left[:n]
	r.left = r.left[n:]
	return out
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) text() []byte {
	n := r.take(4)
	if n == nil {
		return nil
	}
	return r.take(binary.BigEndian.Uint32(n))
}
