package s3test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// Proxy is in front of a server.
type Proxy struct {
	// Address is its HOST:PORT.
	Address string

	mu       sync.Mutex
	before   func(w http.ResponseWriter, r *http.Request) bool
	after    func(r *http.Response, body []byte) []byte
	requests map[string]int
}

// NewProxy puts a proxy in front of a server.
func NewProxy(t testing.TB, s *Server) *Proxy {
	t.Helper()
	p := &Proxy{requests: map[string]int{}}
	transport, address := &http.Transport{MaxIdleConnsPerHost: 32}, s.Address
	back := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: address})
			r.Out.Host = r.In.Host // it is signed
		},
		Transport: transport,
		ModifyResponse: func(r *http.Response) error {
			p.mu.Lock()
			after := p.after
			p.mu.Unlock()
			if after == nil {
				return nil
			}
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return err
			}
			_ = r.Body.Close()
			body = after(r, body)
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			r.Header.Set("Content-Length", fmt.Sprint(len(body)))
			return nil
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.requests[r.Method]++
		before := p.before
		p.mu.Unlock()
		if before != nil && before(w, r) {
			return
		}
		back.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		transport.CloseIdleConnections()
	})
	p.Address = strings.TrimPrefix(server.URL, "http://")
	return p
}

// Before sets what is called with each request, ahead of the server; it returns whether it has answered. nil is nothing.
func (p *Proxy) Before(do func(w http.ResponseWriter, r *http.Request) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.before = do
}

// After sets what changes the server's answers. nil is nothing.
func (p *Proxy) After(do func(r *http.Response, body []byte) []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.after = do
}

// Requests is how many requests of a method there were.
func (p *Proxy) Requests(method string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests[method]
}

// Abort breaks a request's connection.
func Abort() { panic(http.ErrAbortHandler) }

// Answer is an answer with a status and an S3 error's code.
func Answer(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>a text of the server: %s</Message></Error>`, code, strings.Repeat("x", 1000))
}
