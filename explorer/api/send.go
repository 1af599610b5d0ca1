package api

import (
	"net/http"
	"os"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
)

// answerBytes is the memory that answers hold until their clients have read them. An answer in
// parts holds longAnswer throughout.
var answerBytes = limit.Limit{Name: "explorer-answers", Per: "source", Each: 16 << 20, Total: 128 << 20, Unit: limit.Bytes}

// slowReaders is how many bytes a client must read within partTimeout.
var slowReaders = limit.Limit{Name: "explorer-slow-readers", Per: "20 s", Each: 1 << 20, Unit: limit.Bytes}

const (
	// partBytes is how much of a list is read from the database at a time; one
	// item always fits.
	partBytes = 1 << 20
	// longAnswer is larger than any part: the largest reservation and its result.
	longAnswer = 2 << 20
	// partTimeout is how long a client may take to read one part, longTimeout all
	// of them.
	partTimeout = 20 * time.Second
	longTimeout = 2 * time.Minute
)

// source is the address or network that a request counts against.
func source(r *http.Request) string { return limit.SourceOfHostPort(r.RemoteAddr) }

// sender sends answers, and bounds the memory that they hold until their clients have
// read them.
type sender struct {
	answers *limit.Shares
	// slowest is how long a client may take to read one part, longest all of them.
	slowest, longest time.Duration
	log              zerolog.Logger
}

// hold reserves memory for an answer of n bytes; give releases it.
func (s *sender) hold(r *http.Request, n int) (give func(), err error) {
	give, err = s.answers.Take(source(r), int64(n))
	if err != nil {
		return nil, withStatus(http.StatusServiceUnavailable, node.Errorf(node.Busy, "cannot answer now, too much is being read: %w", err))
	}
	return give, nil
}

// body sends a body, whose memory counts until its client has read it.
func (s *sender) body(w http.ResponseWriter, r *http.Request, body []byte) error {
	give, err := s.hold(r, len(body))
	if err != nil {
		return err
	}
	defer give()
	return writeBody(w, http.StatusOK, "application/json", body)
}

// nextPart makes the next part of an answer; more says that another follows.
type nextPart func() (body []byte, more bool, err error)

// parts sends the parts that next makes. No database read stays open while the client reads, and a
// client that doesn't read is cut off.
func (s *sender) parts(w http.ResponseWriter, r *http.Request, next nextPart) error {
	body, more, err := next()
	if err != nil {
		return err
	}
	if !more {
		return s.body(w, r, body)
	}
	give, err := s.hold(r, max(longAnswer, len(body)))
	if err != nil {
		return err
	}
	defer give()
	end := time.Now().Add(s.longest)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(w)
	for {
		by := time.Now().Add(s.slowest)
		if by.After(end) {
			by = end
		}
		_ = out.SetWriteDeadline(by)
		if _, err := w.Write(body); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				slowReaders.Reached()
			}
			panic(http.ErrAbortHandler)
		}
		if !more {
			return nil
		}
		if body, more, err = next(); err != nil {
			// The status is sent already: the client sees the answer break off.
			s.log.Error().Err(err).Msg("cannot finish an answer")
			panic(http.ErrAbortHandler)
		}
	}
}
