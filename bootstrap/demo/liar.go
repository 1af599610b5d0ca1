package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
)

// liar is a proxy between the node and the explorer. It passes everything on, but
// can slip documents into the next answer to a poll, as a compromised explorer
// could.
type liar struct {
	listener net.Listener
	proxy    *httputil.ReverseProxy

	mu      sync.Mutex
	target  string
	slip    []json.RawMessage
	slipped bool
	heard   []json.RawMessage
}

func newLiar(target string) (*liar, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &liar{listener: listener, target: target}
	l.proxy = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			l.mu.Lock()
			defer l.mu.Unlock()
			r.SetURL(&url.URL{Scheme: "http", Host: l.target})
			r.Out.Host = r.In.Host // it is signed
		},
		ModifyResponse: l.modify,
		ErrorHandler:   func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	go func() { _ = http.Serve(listener, http.HandlerFunc(l.serve)) }()
	return l, nil
}

func (l *liar) url() string { return "http://" + l.listener.Addr().String() }

func (l *liar) close() { _ = l.listener.Close() }

// pointAt makes the liar speak to an explorer that has moved.
func (l *liar) pointAt(target string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.target = target
}

// lie slips documents into the next answer to a poll.
func (l *liar) lie(documents ...json.RawMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slip, l.slipped, l.heard = documents, false, nil
}

// told reports whether the lie has been told.
func (l *liar) told() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.slipped
}

// results returns the node's results since the lie.
func (l *liar) results() []json.RawMessage {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]json.RawMessage(nil), l.heard...)
}

func (l *liar) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPut {
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		l.mu.Lock()
		l.heard = append(l.heard, body)
		l.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	l.proxy.ServeHTTP(w, r)
}

// modify adds the lie to an answer to a poll.
func (l *liar) modify(answer *http.Response) error {
	if answer.StatusCode != http.StatusOK || !strings.HasSuffix(answer.Request.URL.Path, "/poll") {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.slip) == 0 {
		return nil
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	answer.Body.Close()
	page := map[string]json.RawMessage{}
	if err := json.Unmarshal(body, &page); err != nil {
		return err
	}
	var documents []json.RawMessage
	if err := json.Unmarshal(page["reservations"], &documents); err != nil {
		return err
	}
	documents = append(documents, l.slip...)
	l.slip, l.slipped = nil, true
	// Data must travel byte for byte, so nothing is encoded again.
	page["reservations"] = joinArray(documents)
	body = joinObject(page)
	answer.Body = io.NopCloser(bytes.NewReader(body))
	answer.ContentLength = int64(len(body))
	answer.Header.Del("Content-Length")
	return nil
}

func joinArray(items []json.RawMessage) json.RawMessage {
	parts := make([][]byte, len(items))
	for i, item := range items {
		parts[i] = item
	}
	return append(append([]byte("["), bytes.Join(parts, []byte(","))...), ']')
}

func joinObject(members map[string]json.RawMessage) []byte {
	out := []byte("{")
	for name, value := range members {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, '"'), name...), `":`...)
		out = append(out, value...)
	}
	return append(out, '}')
}
