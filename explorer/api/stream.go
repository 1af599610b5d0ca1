package api

import (
	"net/http"
	"os"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
)

// answerBytes is what answers hold of the explorer's memory while their clients
// read them. One that comes in parts holds longAnswer all the time.
var answerBytes = limit.Limit{Name: "explorer-answers", Per: "source", Each: 16 << 20, Total: 128 << 20, Unit: limit.Bytes}

// slowReaders is how much a client must read in partTimeout.
var slowReaders = limit.Limit{Name: "explorer-slow-readers", Per: "20 s", Each: 1 << 20, Unit: limit.Bytes}

const (
	// partBytes is how much of a list is read from the database at a time; one
	// item always fits.
	partBytes = 1 << 20
	// longAnswer is more than one part can be: the largest reservation and its result.
	longAnswer = 2 << 20
	// partTimeout is how long a client may take to read one part, longTimeout all
	// of them.
	partTimeout = 20 * time.Second
	longTimeout = 2 * time.Minute
)

// perSource is l without its limit of a source, where the operator says that
// addresses aren't to be counted: behind a proxy all have one.
func (p Policy) perSource(l limit.Limit) limit.Limit {
	if p.AddressRate == 0 {
		l.Each = 0
	}
	return l
}

// source is whom a request counts for.
func source(r *http.Request) string { return limit.SourceOfHostPort(r.RemoteAddr) }

// hold takes room for an answer of n bytes; give gives it back.
func (s *Server) hold(r *http.Request, n int) (give func(), err error) {
	give, err = s.answers.Take(source(r), int64(n))
	if err != nil {
		return nil, withStatus(http.StatusServiceUnavailable, node.Errorf(node.Busy, "cannot answer now, too much is being read: %w", err))
	}
	return give, nil
}

// send answers with a body that is counted until its client has read it.
func (s *Server) send(w http.ResponseWriter, r *http.Request, body []byte) error {
	give, err := s.hold(r, len(body))
	if err != nil {
		return err
	}
	defer give()
	return writeBody(w, http.StatusOK, "application/json", body)
}

// parts makes an answer part by part; more says that another follows.
type parts func() (body []byte, more bool, err error)

// sendParts answers with what next makes. The database is left alone while the
// client reads, and one that doesn't read is cut off.
func (s *Server) sendParts(w http.ResponseWriter, r *http.Request, next parts) error {
	body, more, err := next()
	if err != nil {
		return err
	}
	if !more {
		return s.send(w, r, body)
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
			// What was said can't be taken back: the client sees it break off.
			s.log.Error().Err(err).Msg("cannot finish an answer")
			panic(http.ErrAbortHandler)
		}
	}
}
