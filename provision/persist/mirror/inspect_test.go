package mirror_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/croft-edge/croft/internal/testing/s3test"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/persist"
)

// One object that can't be read, on a place that works, is sent again, and holds up nothing.
func TestAnUnreadableObject(t *testing.T) {
	for code, status := range map[string]int{"AccessDenied": http.StatusForbidden, "InternalError": http.StatusInternalServerError} {
		w, _, proxy := onServer(t)
		w.pace = 50 * time.Millisecond
		m, stop := w.start()
		for range 20 {
			w.write(w.record())
		}
		mirrored(t, m)
		var mu sync.Mutex
		refused, again, looked := "", 0, 0
		proxy.Before(func(rw http.ResponseWriter, r *http.Request) bool {
			mu.Lock()
			defer mu.Unlock()
			if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/list/") && refused != "" && again == 0 {
				looked++
			}
			if !strings.Contains(r.URL.Path, "/file/") {
				return false
			}
			if r.Method == http.MethodGet && refused == "" {
				refused = r.URL.Path
			}
			if r.Method == http.MethodPut && r.URL.Path == refused {
				again++
			}
			if r.Method != http.MethodGet || r.URL.Path != refused || again > 0 {
				return false
			}
			s3test.Answer(rw, status, code)
			return true
		})
		m.Check() // and no change meanwhile: it could be of the object's name
		until(t, code+": it is sent again", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return again > 0
		})
		mirrored(t, m)
		proxy.Before(nil)
		w.live()
		mirrored(t, m)
		stop()
		if again != 1 {
			t.Errorf("%s: it was sent %d times", code, again)
		}
		if looked == 0 {
			t.Errorf("%s: after the place was down it wasn't looked whether the list is still the same", code)
		}
	}
}

// A place that gives no objects is told of, and gets what changes all the same.
func TestObjectsCannotBeRead(t *testing.T) {
	w := newWorld(t)
	m, stop := w.start()
	defer stop()
	for range 50 {
		w.write(w.record())
	}
	mirrored(t, m)
	w.provider.set(func() {
		w.provider.get = func(kind persist.Kind) error {
			if kind == "file" {
				return node.Errorf(node.Transient, "input/output error")
			}
			return nil
		}
	})
	before := w.provider.count("put file")
	m.Check()
	until(t, "it is read", func() bool { return w.provider.count("get file") > 50 })
	w.live()
	mirrored(t, m)
	if n := w.provider.count("put file") - before; n > 30 {
		t.Errorf("%d of about 50 objects are taken for damaged", n)
	}
}
