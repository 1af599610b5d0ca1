package mirror_test

import (
	"bytes"
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/internal/testing/s3test"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/persist/mirror"
	"github.com/croft-edge/croft/provision/persist/s3"
)

// bucket makes a provider of one place on an S3 server.
func bucket(t *testing.T, address string) *s3.Provider {
	t.Helper()
	p, err := s3.New(s3.Config{Secrets: s3test.Known(), Instances: []s3.Instance{{
		Settings: s3.Settings{Endpoint: address, Bucket: s3test.Bucket, Prefix: "nodes/1", PathStyle: true, Plain: true}, Keys: s3test.Keys,
	}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// onServer is a world whose mirror is on an S3 server, behind a proxy.
func onServer(t *testing.T) (*world, *s3test.Server, *s3test.Proxy) {
	t.Helper()
	server := s3test.New(t)
	proxy := s3test.NewProxy(t, server)
	w := newWorld(t)
	w.provider = &watched{Provider: bucket(t, proxy.Address), calls: map[string]int{}}
	return w, server, proxy
}

// A mirror on an S3 server that goes, comes, slows down and breaks off gets everything in the end, and the store never waits. What the server gives
// back is the store, or nothing.
func TestS3(t *testing.T) {
	w, server, proxy := onServer(t)
	w.pace = 50 * time.Millisecond
	m, stop := w.start()
	for range 50 {
		w.write(w.record())
	}
	mirrored(t, m)

	server.Stop()
	w.live()
	until(t, "down", func() bool { s := m.Status(); return !s.Up && s.Names > 0 && s.Error != "" })
	server.Start()
	mirrored(t, m)

	var mu sync.Mutex
	requests := 0
	proxy.Before(func(rw http.ResponseWriter, _ *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		requests++
		switch {
		case requests%7 == 0:
			s3test.Answer(rw, http.StatusServiceUnavailable, "SlowDown")
			return true
		case requests%11 == 0:
			s3test.Abort()
		}
		return false
	})
	for range 5 {
		w.live()
	}
	mirrored(t, m)
	proxy.Before(nil)
	want := files(t, w.folder())
	stop()

	restore := func(folder string) error {
		p := bucket(t, proxy.Address)
		_, err := mirror.Restore(context.Background(), mirror.RestoreConfig{
			Provider: p, Instance: p.Instances()[0], Machine: w.machine(), Key: w.own, Folder: filepath.Join(w.root, folder), Rebirth: rebirth(nil),
		})
		return err
	}
	if err := restore("sound"); err != nil {
		t.Fatal(err)
	}
	sameFiles(t, files(t, filepath.Join(w.root, "sound")), want)

	// A restore needs no list of what there is, and gets no answers for other objects.
	proxy.Before(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("list-type") == "" {
			return false
		}
		s3test.Answer(rw, http.StatusForbidden, "AccessDenied")
		return true
	})
	if err := restore("unlisted"); err != nil {
		t.Errorf("a server that lists nothing: %v", err)
	}
	missing := ""
	proxy.Before(func(rw http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		if !strings.Contains(r.URL.Path, "/file/") || missing != "" && missing != r.URL.Path {
			return false
		}
		missing = r.URL.Path
		s3test.Answer(rw, http.StatusNotFound, "NoSuchKey")
		return true
	})
	if err := restore("less"); node.KindOf(err) != node.Refused || !strings.Contains(err.Error(), "1 of") {
		t.Errorf("one object less: %v", err)
	}
	proxy.Before(nil)
	var kept []byte
	proxy.After(func(r *http.Response, body []byte) []byte {
		mu.Lock()
		defer mu.Unlock()
		if !strings.Contains(r.Request.URL.Path, "/file/") {
			return body
		}
		if kept == nil {
			kept = body
		}
		return kept
	})
	if err := restore("one"); node.KindOf(err) != node.Refused || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("one object for all: %v", err)
	}
}

// A key of the server that may put and not delete costs space alone: the mirror goes on, and what nothing needs is removed once it may be.
func TestPutOnly(t *testing.T) {
	w, _, proxy := onServer(t)
	var log bytes.Buffer
	w.edit = func(c *mirror.Config) { c.Log = zerolog.New(&log) }
	var mu sync.Mutex
	may := false
	proxy.Before(func(rw http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		if r.Method != http.MethodDelete || may {
			return false
		}
		s3test.Answer(rw, http.StatusForbidden, "AccessDenied")
		return true
	})
	m, stop := w.start()
	failed := false
	for range 5 {
		w.live()
		until(t, "mirrored", func() bool {
			s := m.Status()
			failed = failed || !s.Up && s.Complete || s.Error != ""
			return s.Complete && s.Names == 0
		})
	}
	if failed {
		t.Errorf("it fails: %+v", m.Status())
	}
	mu.Lock()
	may = true
	mu.Unlock()
	w.live()
	until(t, "tidied", func() bool {
		mirrored(t, m)
		names, err := mirror.Folder(w.folder()).Names()
		keys, failed := w.provider.Keys(t.Context(), w.provider.Instances()[0], "file")
		return err == nil && failed == nil && len(keys) == len(names)
	})
	stop()
	if n := strings.Count(log.String(), "lets nothing be removed"); n != 1 || strings.Count(log.String(), "\n") != 1 {
		t.Errorf("it is told %d times: %s", n, &log)
	}
}

// A list is sent once a try: what the server refuses, or breaks off, isn't sent again behind the mirror's back.
func TestAListIsSentOnce(t *testing.T) {
	w, _, proxy := onServer(t)
	var mu sync.Mutex
	requests := 0
	proxy.Before(func(rw http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		if r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "/list/") {
			return false
		}
		if requests++; requests%2 == 1 {
			s3test.Answer(rw, http.StatusServiceUnavailable, "SlowDown")
			return true
		}
		return false
	})
	m, stop := w.start()
	w.live()
	mirrored(t, m)
	stop()
	if n := w.provider.count("put list"); n != requests || n < 3 {
		t.Errorf("%d lists were sent in %d requests", n, requests)
	}
}
