package imagetest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"
)

// registryToken is the token for clients with the password.
const registryToken = "a-token-of-the-registry"

// allowed checks a request's credentials, and answers 401 when they are wrong.
func (f Faults) allowed(w http.ResponseWriter, req *http.Request) bool {
	want, challenge := "", ""
	switch {
	case f.User == "":
		return true
	case f.Token:
		want = "Bearer " + registryToken
		scheme := "http"
		if req.TLS != nil {
			scheme = "https"
		}
		realm := f.Realm
		if realm == "" {
			realm = scheme + "://" + req.Host + "/token"
		}
		challenge = fmt.Sprintf(`Bearer realm="%s",service="croft",scope="repository:app:pull"`, realm)
	default:
		want, challenge = f.basic(), `Basic realm="croft"`
	}
	if req.Header.Get("Authorization") == want {
		return true
	}
	w.Header().Set("WWW-Authenticate", challenge)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusUnauthorized)
	fmt.Fprint(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`)
	return false
}

func (f Faults) basic() string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(f.User+":"+f.Password))
}

// token issues a token for the password.
func (f Faults) token(w http.ResponseWriter, req *http.Request) {
	password := req.Header.Get("Authorization") == f.basic()
	if req.Method == http.MethodPost {
		password = req.FormValue("username") == f.User && req.FormValue("password") == f.Password
	}
	if !password {
		http.Error(w, "no", http.StatusUnauthorized)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"token": registryToken, "access_token": registryToken, "expires_in": 3600})
}

// answer serves a manifest or a blob of the inner registry.
func (r *Registry) answer(w http.ResponseWriter, req *http.Request, f Faults) {
	whole := req.Clone(req.Context())
	whole.Header.Del("Range")
	kept := httptest.NewRecorder()
	r.inner.ServeHTTP(kept, whole)
	body := kept.Body.Bytes()
	for name, values := range kept.Header() {
		w.Header()[name] = values
	}
	if f.Change != nil && kept.Code == http.StatusOK && req.Method == http.MethodGet {
		body = f.Change(req.URL.Path, body)
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	if req.Method == http.MethodHead || kept.Code != http.StatusOK || !strings.Contains(req.URL.Path, "/blobs/") {
		w.WriteHeader(kept.Code)
		_, _ = w.Write(body)
		return
	}
	r.blob(w, req, f, body)
}

// blob serves a blob from the beginning of the request's Range.
func (r *Registry) blob(w http.ResponseWriter, req *http.Request, f Faults, body []byte) {
	code := http.StatusOK
	if from, ok := strings.CutPrefix(req.Header.Get("Range"), "bytes="); ok {
		first, _, _ := strings.Cut(from, "-")
		n, err := strconv.Atoi(first)
		if err != nil || n >= len(body) {
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			return
		}
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", n, len(body)-1, len(body)))
		body, code = body[n:], http.StatusPartialContent
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if f.Endless {
		w.Header().Del("Content-Length")
	}
	hang, cut := r.ends(f)
	w.WriteHeader(code)
	end := f.end(hang, cut, len(body))
	if !r.send(w, req, body[:end]) {
		return
	}
	switch {
	case f.Endless:
		for r.send(w, req, make([]byte, 1<<16)) {
		}
	case hang && end < len(body):
		r.hang(req)
	case cut && end < len(body):
		panic(http.ErrAbortHandler)
	}
}

func (f Faults) end(hang, cut bool, size int) int {
	switch {
	case hang:
		return min(size, int(f.HangAfter))
	case cut:
		return min(size, int(f.CutAfter))
	}
	return size
}

// ends reports whether this blob's answer is interrupted, and counts the blob.
func (r *Registry) ends(f Faults) (hang, cut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen.Blobs++
	if f.HangAfter == 0 && f.CutAfter == 0 {
		return false, false
	}
	if r.faults.Times > 0 {
		if r.faults.Times--; r.faults.Times == 0 {
			r.faults.HangAfter, r.faults.CutAfter = 0, 0
		}
	}
	return f.HangAfter > 0, f.CutAfter > 0
}

// pause is the present pause before each KiB: answers on their way follow a change.
func (r *Registry) pause() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.faults.Pause
}

// send writes a part of a blob, and reports whether the client is still connected.
func (r *Registry) send(w http.ResponseWriter, req *http.Request, body []byte) bool {
	for len(body) > 0 {
		n := min(len(body), 1<<16)
		if pause := r.pause(); pause > 0 {
			n = min(n, 1<<10)
			select {
			case <-time.After(pause):
			case <-req.Context().Done():
				return false
			case <-r.closed:
				return false
			}
		}
		if _, err := w.Write(body[:n]); err != nil {
			return false
		}
		_ = http.NewResponseController(w).Flush()
		r.mu.Lock()
		r.seen.BlobBytes += int64(n)
		r.mu.Unlock()
		body = body[n:]
	}
	return true
}
