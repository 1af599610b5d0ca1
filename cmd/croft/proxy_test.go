package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
)

// The ways in which the proxy lies.
const (
	// loseAnswer passes the next push on, and breaks the connection instead of answering.
	loseAnswer = "lose-answer"
	// breakPush breaks the connection instead of passing pushes on.
	breakPush = "break-push"
	// forge says in each result that all is well.
	forge = "forge"
	// unsigned takes the results' hash away, as if they were of version 1.
	unsigned = "unsigned"
	// other shows another document than was asked for.
	other = "other"
	// old shows the first result that it has seen of each reservation.
	old = "old"
	// withhold shows no results.
	withhold = "withhold"
	// forget answers that it doesn't know any reservation.
	forget = "forget"
	// garbage answers with text that isn't JSON.
	garbage = "garbage"
)

// proxy stands between the CLI and the explorer.
type proxy struct {
	mu    sync.Mutex
	url   string
	mode  string
	first map[string]json.RawMessage
	posts int
	// shown counts the answers to who asked for reservations.
	shown int
}

func (p *proxy) pointAt(url string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.url = url
}

func (p *proxy) target() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.url
}

func (p *proxy) lie(mode string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode = mode
}

// pushed is how many pushes came by.
func (p *proxy) pushed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.posts
}

func (p *proxy) look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shown++
}

// looks is how many answers showed reservations.
func (p *proxy) looks() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shown
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") != "" {
		// The following bytes aren't HTTP, and there is nothing to lie about.
		target, err := url.Parse(p.target())
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		carry := &httputil.ReverseProxy{Rewrite: func(out *httputil.ProxyRequest) {
			out.SetURL(target)
			out.Out.Host = r.Host
		}}
		carry.ServeHTTP(w, r)
		return
	}
	p.mu.Lock()
	mode := p.mode
	push := r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/reservations/")
	if push {
		p.posts++
	}
	if push && mode == loseAnswer {
		p.mode = breakPush
	}
	p.mu.Unlock()
	if push && mode == breakPush {
		panic(http.ErrAbortHandler)
	}
	if !push && mode == forget && strings.HasPrefix(r.URL.Path, "/reservations/") {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"detail":"there is no such reservation","status":404,"kind":"NotExist"}`))
		return
	}
	status, header, body := p.pass(r)
	if push && mode == loseAnswer {
		panic(http.ErrAbortHandler)
	}
	if r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/reservations/") && status == http.StatusOK {
		status, body = p.twist(mode, r.URL.Path, status, body)
		if !strings.HasSuffix(r.URL.Path, "/poll") {
			defer p.look()
		}
	}
	for name, values := range header {
		if name != "Content-Length" {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func (p *proxy) pass(r *http.Request) (int, http.Header, []byte) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return http.StatusBadGateway, nil, nil
	}
	out, err := http.NewRequestWithContext(r.Context(), r.Method, p.target()+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return http.StatusBadGateway, nil, nil
	}
	// A signed write is signed for the host that the CLI dialled.
	out.Header, out.Host = r.Header.Clone(), r.Host
	resp, err := http.DefaultTransport.RoundTrip(out)
	if err != nil {
		return http.StatusBadGateway, nil, nil
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return http.StatusBadGateway, nil, nil
	}
	return resp.StatusCode, resp.Header, answer
}

// twist changes the shown reservation.
func (p *proxy) twist(mode, path string, status int, body []byte) (int, []byte) {
	shown := map[string]json.RawMessage{}
	if json.Unmarshal(body, &shown) != nil {
		return status, body
	}
	p.mu.Lock()
	if p.first == nil {
		p.first = map[string]json.RawMessage{}
	}
	if p.first[path] == nil && string(shown["result"]) != "null" {
		p.first[path] = shown["result"]
	}
	first := p.first[path]
	p.mu.Unlock()
	switch mode {
	case garbage:
		return status, []byte("<html>hello</html>")
	case withhold:
		shown["result"] = json.RawMessage("null")
	case old:
		shown["result"] = first
	case other:
		shown["data"] = json.RawMessage(`{"size":9,"type":"HDD"}`)
	case forge, unsigned:
		shown["result"] = changed(shown["result"], mode)
	}
	out, err := json.Marshal(shown)
	if err != nil {
		return http.StatusInternalServerError, nil
	}
	return status, out
}

func changed(result json.RawMessage, mode string) json.RawMessage {
	members := map[string]any{}
	if json.Unmarshal(result, &members) != nil || members == nil {
		return result
	}
	if mode == forge {
		members["state"], members["error"] = "ok", ""
	} else {
		delete(members, "reservation_hash")
	}
	out, err := json.Marshal(members)
	if err != nil {
		return result
	}
	return out
}
