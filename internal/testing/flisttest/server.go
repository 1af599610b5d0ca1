package flisttest

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"net/http"
	"strings"
	"sync"

	"github.com/croft-edge/croft/internal/testing/imagetest"
)

// Blobs is the path of the store of blocks at a Server.
const Blobs = "/blobs"

// Server serves flists, and their blocks as a store. It misbehaves as a registry does.
type Server struct {
	*imagetest.Registry
	site *site
}

// StartServer starts an empty server over plain HTTP, or over HTTPS with a config.
func StartServer(config *tls.Config) (*Server, error) {
	s := &site{files: map[string][]byte{}}
	r, err := imagetest.StartServer(s, config)
	if err != nil {
		return nil, err
	}
	return &Server{r, s}, nil
}

// Put serves a flist at a path such as /kubernetes.fl, and its blocks.
func (s *Server) Put(path string, m Made) {
	s.site.put(path, m.FL)
	for id, stored := range m.Blocks {
		name := id.String()
		s.site.put(Blobs+"/"+name[:2]+"/"+name, stored)
	}
}

// PutFile serves some bytes at a path.
func (s *Server) PutFile(path string, content []byte) { s.site.put(path, content) }

// Remove removes what a path leads to, and all below it.
func (s *Server) Remove(path string) { s.site.remove(path) }

// site is what a server has.
type site struct {
	mu    sync.Mutex
	files map[string][]byte
}

func (s *site) put(path string, content []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[path] = content
}

func (s *site) remove(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.files {
		if name == path || strings.HasPrefix(name, path+"/") {
			delete(s.files, name)
		}
	}
}

// ServeHTTP implements http.Handler.
func (s *site) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	content, ok := s.files[req.URL.Path]
	s.mu.Unlock()
	if !ok {
		http.NotFound(w, req)
		return
	}
	sum := sha256.Sum256(content)
	tag := `"` + hex.EncodeToString(sum[:]) + `"`
	w.Header().Set("ETag", tag)
	if req.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(content)
}
