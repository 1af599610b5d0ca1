package main_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/workload"
)

// proxy stands between a node and its explorer, and misbehaves like bad links and lying explorers.
type proxy struct {
	*httptest.Server
	mu      sync.Mutex
	slip    []json.RawMessage
	results map[string]string
	// mood, when set, answers instead of the explorer.
	mood  http.HandlerFunc
	asked int
}

func startProxy(t *testing.T, w *nodetest.World) *proxy {
	t.Helper()
	target, err := url.Parse(w.URL)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{results: map[string]string{}}
	// Writes are signed over the host: it is passed on unchanged, and the explorer accepts it.
	reverse := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = r.In.Host },
		ModifyResponse: p.lie,
		FlushInterval:  -1,
	}
	p.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		mood := p.mood
		p.asked++
		p.mu.Unlock()
		if mood != nil {
			mood(rw, r)
			return
		}
		if r.Method == http.MethodPut {
			p.note(r)
		}
		reverse.ServeHTTP(rw, r)
	}))
	w.AfterKill(p.Close)
	return p
}

// note records the results that the node sends.
func (p *proxy) note(r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(raw))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.results[strings.Split(strings.TrimPrefix(r.URL.Path, "/reservations/"), "/")[0]] = string(raw)
}

// Results is the newest result that the node sent for id; empty for none.
func (p *proxy) Results(id string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.results[id]
}

// Slip adds reservations to the next page that has any.
func (p *proxy) Slip(t *testing.T, rs ...*workload.Reservation) {
	t.Helper()
	for _, r := range rs {
		raw, err := explorer.EncodeReservation(r)
		if err != nil {
			t.Fatal(err)
		}
		p.mu.Lock()
		p.slip = append(p.slip, raw)
		p.mu.Unlock()
	}
}

// Mood makes the proxy answer itself; nil makes it forward again.
func (p *proxy) Mood(h http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mood = h
	p.asked = 0
}

// Asked counts the requests since the last Mood.
func (p *proxy) Asked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// lie adds the slipped reservations to a page that has any.
func (p *proxy) lie(resp *http.Response) error {
	if !strings.HasSuffix(resp.Request.URL.Path, "/poll") || resp.StatusCode != http.StatusOK {
		return nil
	}
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	var page explorer.Page
	if err := json.Unmarshal(raw, &page); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(page.Reservations) > 0 && len(p.slip) > 0 {
		page.Reservations = append(page.Reservations, p.slip...)
		p.slip = nil
		if raw, err = json.Marshal(page); err != nil {
			return err
		}
	}
	resp.Body = io.NopCloser(bytes.NewReader(raw))
	resp.ContentLength = int64(len(raw))
	resp.Header.Set("Content-Length", "")
	resp.Header.Del("Content-Length")
	return nil
}
