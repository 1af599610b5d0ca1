package registry_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	server "github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/croft-edge/croft/cmd/croft/internal/registry"
)

func TestCheck(t *testing.T) {
	inner := server.New()
	guarded := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); strings.Contains(r.URL.Path, "closed") && password != "secret" || strings.HasSuffix(r.URL.Path, "/v2/") && password != "secret" && password != "" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if strings.Contains(r.URL.Path, "broken") {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	defer guarded.Close()
	host := strings.TrimPrefix(guarded.URL, "http://")
	ref, err := name.ParseReference(host + "/app/web:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, empty.Image); err != nil {
		t.Fatal(err)
	}
	for reference, want := range map[string]string{
		"docker://" + host + "/app/web:1":        "",
		"docker://" + host + "/app/web:2":        "missing",
		"docker://" + host + "/app/wbe":          "missing",
		"docker://" + host + "/app/closed:1":     "missing",
		"docker://" + host + "/App:x:y":          "missing",
		"docker://" + host + "/app/broken:1":     "unknown",
		"docker://127.0.0.1:1/app/web:1":         "unknown",
		"https://hub.example.org/somebody.flist": "",
		"/images/web":                            "",
	} {
		err := registry.Check(t.Context(), reference, "")
		var missing *registry.MissingError
		got := ""
		switch {
		case errors.As(err, &missing):
			got = "missing"
		case err != nil:
			got = "unknown"
		}
		if got != want {
			t.Errorf("%s: %v, want %q", reference, err, want)
		}
	}
}
