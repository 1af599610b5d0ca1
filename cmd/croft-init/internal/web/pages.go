package web

import (
	"bytes"
	"embed"
	"net/http"
	"path"
	"time"
)

//go:embed page
var files embed.FS

// pages is the page and what it loads, all from here.
type pages struct{ files embed.FS }

func newPages() pages { return pages{files: files} }

// contentType of a file; nothing of the machine says it.
func contentType(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	default:
		return "text/javascript; charset=utf-8"
	}
}

func (p pages) serve(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Path
	if name == "/" {
		name = "/index.html"
	}
	raw, err := p.files.ReadFile("page" + name)
	if err != nil {
		refuse(w, http.StatusNotFound, "there is no such page")
		return
	}
	w.Header().Set("Content-Type", contentType(name))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(raw))
}
