package web

import (
	"embed"
	"io"
	"net/http"
	"path"
	"time"
)

//go:embed page
var files embed.FS

// pages serves the page and the files that it loads, all embedded.
type pages struct{ files embed.FS }

func newPages() pages { return pages{files: files} }

// contentType is the type of a file by its extension; the machine's MIME tables have no influence.
func contentType(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".mjs":
		return "text/javascript; charset=utf-8"
	default: // licenses
		return "text/plain; charset=utf-8"
	}
}

func (p pages) serve(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Path
	if name == "/" {
		name = "/index.html"
	}
	file, err := p.files.Open("page" + name)
	if err != nil {
		refuse(w, http.StatusNotFound, "there is no such page")
		return
	}
	defer file.Close()
	content, ok := file.(io.ReadSeeker) // ReadFile would copy the file: the memory is the container's
	if !ok {
		refuse(w, http.StatusNotFound, "there is no such page")
		return
	}
	w.Header().Set("Content-Type", contentType(name))
	http.ServeContent(w, r, "", time.Time{}, content)
}
