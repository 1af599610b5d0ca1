package resp

import (
	"bytes"
	"io"
)

// chunk is how many bytes a Reader reads when it doesn't know the next length.
const chunk = 512

// Reader reads the requests of a stream, each into its own memory. A server with many
// connections that share memory uses a Parser instead.
type Reader struct {
	from   io.Reader
	limits Limits
	parser Parser
	// rest is the input read beyond the last request, at most chunk bytes.
	rest []byte
}

// NewReader makes a reader.
func NewReader(from io.Reader, l Limits) *Reader { return &Reader{from: from, limits: l} }

// Next returns the arguments of the next request. They stay valid. It takes no more memory than
// twice the received bytes. An Error is an unreadable request; others are from's.
func (r *Reader) Next() ([][]byte, error) {
	buf := r.rest
	for {
		args, n, err := r.parser.Next(buf, nil, &r.limits)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			r.rest = bytes.Clone(buf[n:])
			return args, nil
		}
		if buf, err = r.more(buf); err != nil {
			return nil, err
		}
	}
}

// more reads more input behind buf.
func (r *Reader) more(buf []byte) ([]byte, error) {
	want := max(r.parser.Need()-len(buf), chunk)
	if free := cap(buf) - len(buf); free == 0 {
		grown := make([]byte, len(buf), len(buf)+min(want, max(chunk, len(buf))))
		copy(grown, buf)
		buf = grown
	}
	n, err := r.from.Read(buf[len(buf):min(cap(buf), len(buf)+want)])
	if n > 0 {
		return buf[:len(buf)+n], nil
	}
	return buf, err
}
