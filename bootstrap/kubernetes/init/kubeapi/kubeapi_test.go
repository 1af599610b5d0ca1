package kubeapi_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/bootstrap/kubernetes/init/kubeapi"
)

// serve starts an API server, and a client of it.
func serve(t *testing.T, answer http.HandlerFunc) *kubeapi.Client {
	t.Helper()
	server := httptest.NewTLSServer(answer)
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	c, err := kubeapi.New(kubeapi.Config{Server: server.URL, CA: ca, Token: "abcdef.secret"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestRequests(t *testing.T) {
	var got string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = fmt.Sprintf("%s %s %s %s %s", r.Method, r.URL, r.Header.Get("Content-Type"), r.Header.Get("Authorization"), body)
		io.WriteString(w, `{"kind":"x"}`)
	})
	ctx, object := context.Background(), map[string]string{"a": "b"}
	for want, send := range map[string]func() error{
		"GET /p  Bearer abcdef.secret ": func() error {
			var out struct{ Kind string }
			err := c.Get(ctx, "/p", &out)
			if out.Kind != "x" {
				t.Errorf("the answer is %+v", out)
			}
			return err
		},
		`PATCH /p?fieldManager=croft&force=true application/apply-patch+yaml Bearer abcdef.secret {"a":"b"}`: func() error { return c.Apply(ctx, "/p", object) },
		`PATCH /p application/merge-patch+json Bearer abcdef.secret {"a":"b"}`:                               func() error { return c.Merge(ctx, "/p", object) },
		`PUT /p application/json Bearer abcdef.secret {"a":"b"}`:                                             func() error { return c.Replace(ctx, "/p", object) },
	} {
		if err := send(); err != nil || got != want {
			t.Errorf("the request is %q, want %q: %v", got, want, err)
		}
	}
}

func TestErrors(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		io.WriteString(w, `{"kind":"Status","message":"not you"}`)
	})
	err := c.Get(context.Background(), "/p", nil)
	if !kubeapi.IsCode(err, 403) || kubeapi.IsCode(err, 404) || !strings.Contains(err.Error(), "not you") {
		t.Errorf("the error is %v", err)
	}
	// A server of another authority isn't spoken to.
	reached := false
	stranger := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer stranger.Close()
	other := httptest.NewUnstartedServer(nil)
	other.StartTLS()
	defer other.Close()
	s, err := kubeapi.New(kubeapi.Config{Server: strings.Replace(stranger.URL, "127.0.0.1", "localhost", 1), CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: other.Certificate().Raw})})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Get(context.Background(), "/p", nil); err == nil || reached {
		t.Error("a server that isn't named in its certificate is spoken to")
	}
	if _, err := kubeapi.New(kubeapi.Config{CA: []byte("x")}); err == nil {
		t.Error("an authority that is none is taken")
	}
}

func TestLongAnswer(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Write([]byte(`"`))
		for range 17 {
			w.Write(make([]byte, 1<<20))
		}
	})
	var out string
	if err := c.Get(context.Background(), "/p", &out); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("the error of a long answer is %v", err)
	}
}

func object(namespace, name string, version int) string {
	return fmt.Sprintf(`{"metadata":{"namespace":%q,"name":%q,"resourceVersion":"%d"}}`, namespace, name, version)
}

// short keeps short objects as they are.
func short(object json.RawMessage) json.RawMessage {
	if len(object) > 1<<10 {
		return nil
	}
	return object
}

// TestWatch lists two objects, then sends changes; after each the watcher has the state that the server has.
func TestWatch(t *testing.T) {
	changes := []string{
		`{"type":"ADDED","object":` + object("a", "z", 11) + `}`,
		`{"type":"BOOKMARK","object":` + object("a", "z", 12) + `}`,
		`{"type":"MODIFIED","object":` + object("a", "x", 13) + `}`,
		`{"type":"DELETED","object":` + object("b", "x", 14) + `}`,
		`{"type":"MODIFIED","object":{"metadata":{"namespace":"a","name":"z"},"data":"` + strings.Repeat("x", 200<<10) + `"}}`,
	}
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "" {
			fmt.Fprintf(w, `{"metadata":{"resourceVersion":"10"},"items":[%s,%s]}`, object("a", "x", 1), object("b", "x", 2))
			return
		}
		if v := r.URL.Query().Get("resourceVersion"); v != "10" {
			t.Errorf("the watch begins at version %s", v)
		}
		for _, line := range changes {
			io.WriteString(w, line+"\n")
			w.(http.Flusher).Flush()
		}
	})
	var states []string
	err := c.Watch(context.Background(), "/things", short, func(all map[string]json.RawMessage) error {
		var state []string
		for _, name := range slices.Sorted(maps.Keys(all)) {
			var o struct {
				Metadata struct{ ResourceVersion string }
			}
			if err := json.Unmarshal(all[name], &o); err != nil {
				return err
			}
			state = append(state, name+"="+o.Metadata.ResourceVersion)
		}
		states = append(states, strings.Join(state, " "))
		return nil
	})
	want := []string{"a/x=1 b/x=2", "a/x=1 a/z=11 b/x=2", "a/x=13 a/z=11 b/x=2", "a/x=13 a/z=11", "a/x=13"}
	if err != nil || !slices.Equal(states, want) {
		t.Errorf("the states are %q, want %q: %v", states, want, err)
	}
}

// TestList reads a collection in pages, and keeps what is wanted of it.
func TestList(t *testing.T) {
	var asked []string
	long := `{"metadata":{"name":"long"},"data":"` + strings.Repeat("x", 200<<10) + `"}`
	pages := map[string]string{
		"":       `{"metadata":{"resourceVersion":"10","continue":"second"},"items":[` + object("a", "x", 1) + "," + long + `]}`,
		"second": `{"metadata":{"resourceVersion":"10"},"items":[` + object("b", "x", 2) + `]}`,
	}
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Query().Get("limit"))
		io.WriteString(w, pages[r.URL.Query().Get("continue")])
	})
	all, err := c.List(context.Background(), "/things", short)
	if names := slices.Sorted(maps.Keys(all)); err != nil || !slices.Equal(names, []string{"a/x", "b/x"}) || !slices.Equal(asked, []string{"10", "10"}) {
		t.Errorf("the list has %q, asked for with limits %q: %v", names, asked, err)
	}
}

// TestKeptBytes: however many objects there are, and however long, what is kept of a collection is bounded; what goes makes room.
func TestKeptBytes(t *testing.T) {
	var items []string
	long := strings.Repeat("x", 15<<10)
	const count = 1200 // 17.6 MiB
	for i := range count {
		items = append(items, fmt.Sprintf(`{"metadata":{"name":"%d"},"data":"%s"}`, i, long))
	}
	sent := 0
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") != "" {
			fmt.Fprintf(w, `{"type":"DELETED","object":%s}{"type":"ADDED","object":{"metadata":{"name":"late"}}}`, items[0])
			return
		}
		end := min(sent+10, count)
		next := ""
		if end < count {
			next = "more"
		}
		fmt.Fprintf(w, `{"metadata":{"resourceVersion":"1","continue":"%s"},"items":[%s]}`, next, strings.Join(items[sent:end], ","))
		sent = end
	})
	var last map[string]json.RawMessage
	err := c.Watch(context.Background(), "/things", func(o json.RawMessage) json.RawMessage { return o }, func(all map[string]json.RawMessage) error {
		last = all
		bytes := 0
		for _, o := range all {
			bytes += len(o)
		}
		if bytes > 16<<20 || len(all) < 1000 {
			t.Errorf("%d objects of %d bytes are kept", len(all), bytes)
		}
		return nil
	})
	if err != nil || last["/late"] == nil || last["/0"] != nil {
		t.Errorf("after one has gone the next isn't kept: %v", err)
	}
}

func TestWatchEnds(t *testing.T) {
	for name, stream := range map[string]string{
		"an error":          `{"type":"ERROR","object":{"code":410,"message":"too old"}}`,
		"no JSON":           `{"type":`,
		"an unnamed object": `{"type":"ADDED","object":{}}`,
		"a long event":      `{"type":"ADDED","object":{"x":"` + strings.Repeat("y", 17<<20) + `"}}`,
	} {
		c := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("watch") == "" {
				io.WriteString(w, `{"metadata":{"resourceVersion":"1"},"items":[]}`)
				return
			}
			io.WriteString(w, stream)
		})
		calls := 0
		if err := c.Watch(context.Background(), "/things", short, func(map[string]json.RawMessage) error { calls++; return nil }); err == nil || calls != 1 {
			t.Errorf("with %s the watch ends with %v after %d calls", name, err, calls)
		}
	}
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "" {
			io.WriteString(w, `{"metadata":{"resourceVersion":"1"},"items":[]}`)
			return
		}
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := c.Watch(ctx, "/things", short, func(map[string]json.RawMessage) error { cancel(); return nil })
	if err == nil {
		t.Error("a watch goes on after its context's end")
	}
}
