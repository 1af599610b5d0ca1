package explorer

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func against(t *testing.T, handler http.HandlerFunc, change ...func(*Config)) *Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	key, err := sign.Generate()
	must(t, err)
	c := Config{URL: server.URL, Timeout: 5 * time.Second, Signer: KeySigner(RoleNode, key)}
	for _, f := range change {
		f(&c)
	}
	client, err := NewClient(c)
	must(t, err)
	t.Cleanup(client.Close)
	return client
}

func text(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// calls are a client's methods by name, with sample arguments.
func calls(c *Client) map[string]func(context.Context) error {
	r := &workload.Reservation{ID: "1-1", NodeID: "n", Data: json.RawMessage("{}"), Created: time.Now()}
	result := &workload.Result{ID: "1-1", Created: time.Now()}
	return map[string]func(context.Context) error{
		"Info":            func(ctx context.Context) error { _, err := c.Info(ctx); return err },
		"RegisterNode":    func(ctx context.Context) error { return c.RegisterNode(ctx, Node{}) },
		"Heartbeat":       func(ctx context.Context) error { return c.Heartbeat(ctx, "n", Heartbeat{}) },
		"SetCapacity":     func(ctx context.Context) error { return c.SetCapacity(ctx, "n", Resources{}) },
		"SetInterfaces":   func(ctx context.Context) error { return c.SetInterfaces(ctx, "n", nil) },
		"SetPorts":        func(ctx context.Context) error { return c.SetPorts(ctx, "n", nil) },
		"SetPublicConfig": func(ctx context.Context) error { return c.SetPublicConfig(ctx, "n", PublicConfig{}) },
		"AllNodes": func(ctx context.Context) error {
			_, err := c.AllNodes(ctx, NodeFilter{Farm: 1, Online: true})
			return err
		},
		"Node":       func(ctx context.Context) error { _, err := c.Node(ctx, "n"); return err },
		"CreateFarm": func(ctx context.Context) error { _, err := c.CreateFarm(ctx, "f"); return err },
		"AllFarms":   func(ctx context.Context) error { _, err := c.AllFarms(ctx); return err },
		"Farm":       func(ctx context.Context) error { _, err := c.Farm(ctx, 1); return err },
		"Approve":    func(ctx context.Context) error { return c.Approve(ctx, 1, "n", Grant{}) },
		"Reserve":    func(ctx context.Context) error { _, err := c.Reserve(ctx, r); return err },
		"Get":        func(ctx context.Context) error { _, err := c.Get(ctx, "1-1"); return err },
		"ListAll":    func(ctx context.Context) error { _, err := c.ListAll(ctx, "u"); return err },
		"PollPage":   func(ctx context.Context) error { _, err := c.PollPage(ctx, "n", Cursor{}, time.Second); return err },
		"PollFrom":   func(ctx context.Context) error { _, err := c.PollFrom(ctx, "n", 0); return err },
		"PutResult":  func(ctx context.Context) error { return c.PutResult(ctx, result) },
		"PutDeleted": func(ctx context.Context) error { return c.PutDeleted(ctx, "1-1", result) },
		"Delete":     func(ctx context.Context) error { return c.Delete(ctx, "1-1", workload.Deletion{Signature: []byte{1}}) },
		"Renew":      func(ctx context.Context) error { return c.Renew(ctx, "1-1", workload.Renewal{}) },
	}
}

// answersNothing reports whether a call is a write without a result: garbage in its response doesn't matter.
func answersNothing(name string) bool {
	for _, prefix := range []string{"Register", "Heartbeat", "Set", "Approve", "Put", "Delete", "Renew"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

func TestEveryCallHasAKind(t *testing.T) {
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		kind    node.Kind
	}{
		{"400", text(400, `{"detail":"no"}`), node.Invalid},
		{"401", text(401, ``), node.Refused},
		{"403", text(403, `garbage`), node.Refused},
		{"404", text(404, `{"Error":"gone"}`), node.NotExist},
		{"404 of a proxy", text(404, `<html>`), node.NotExist},
		{"409", text(409, `{}`), node.Exist},
		{"409 that is refused", text(409, `{"kind":"Refused"}`), node.Refused},
		{"413", text(413, ``), node.Invalid},
		{"429", text(429, ``), node.Busy},
		{"500", text(500, ``), node.Transient},
		{"500 that says it is final", text(500, `{"kind":"Invalid"}`), node.Transient},
		{"507", text(507, `{"kind":"NoSpace"}`), node.Transient},
		{"502", text(502, `<html>`), node.Transient},
		{"redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "http://127.0.0.1:1/", 302) }, node.Transient},
		{"redirect that keeps the method", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/x", 307) }, node.Transient},
		{"no HTTP", func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_, _ = io.WriteString(conn, "what?\r\n\r\n")
				_ = conn.Close()
			}
		}, node.Transient},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := against(t, c.handler)
			for name, call := range calls(client) {
				if err := call(t.Context()); node.KindOf(err) != c.kind {
					t.Errorf("%s: %v is %q, want %s", name, err, node.KindOf(err), c.kind)
				}
			}
		})
	}
}

// A garbage response is a Transient error, and never a panic.
func TestGarbageAnswers(t *testing.T) {
	for _, body := range []string{
		``, `null`, `0`, `"x"`, `[]`, `{}`, `[null]`, `[1]`, `[{}]`, `{"id":5}`, `{"epoch":"","time":"x"}`, `<html>`, "\xff\xfe",
		`{"epoch":"a","next":5,"head":1,"resync":true,"time":"2026-01-01T00:00:00Z"}`,
		`{"epoch":"a","next":1,"head":1,"resync":false,"time":"2026-01-01T00:00:00Z"}`,
		`{"epoch":"a","next":1,"head":1,"resync":true}`,
		`{"epoch":"a","next":1,"head":1,"resync":true,"time":"2026-01-01T00:00:00Z","reservations":[null]}`,
		`{"epoch":"a","next":-1,"head":1,"resync":true,"time":"2026-01-01T00:00:00Z"}`,
		strings.Repeat(`[`, 100000),
	} {
		client := against(t, text(200, body))
		for name, call := range calls(client) {
			if answersNothing(name) {
				continue
			}
			list := name == "AllNodes" || name == "AllFarms" || name == "ListAll" || name == "PollFrom"
			empty := list && (body == `[]` || body == `null`)
			info := name == "Info" && strings.HasPrefix(body, `{"epoch":"a"`)
			err := call(t.Context())
			if (empty || info) && err == nil {
				continue
			}
			if node.KindOf(err) != node.Transient {
				t.Errorf("%s answered with %.60q: %v is %q, want Transient", name, body, err, node.KindOf(err))
			}
		}
	}
}

func TestAnEndlessAnswer(t *testing.T) {
	client := against(t, func(w http.ResponseWriter, r *http.Request) {
		chunk := []byte(strings.Repeat(" ", 1<<16))
		for r.Context().Err() == nil {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	_, err := client.Info(t.Context())
	if node.KindOf(err) != node.Transient || !strings.Contains(err.Error(), "larger") {
		t.Errorf("error is %v", err)
	}
}

func TestAServerThatNeverAnswers(t *testing.T) {
	stop := make(chan struct{})
	client := against(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-stop:
		}
	}, func(c *Config) { c.Timeout = 100 * time.Millisecond })
	t.Cleanup(func() { close(stop) })
	start := time.Now()
	_, err := client.Get(t.Context(), "1-1")
	if node.KindOf(err) != node.Transient || time.Since(start) > 5*time.Second {
		t.Errorf("after %s: %v", time.Since(start), err)
	}
	// A long poll's wait adds to the timeout; the end of its context ends it at once.
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err = client.PollPage(ctx, "n", Cursor{}, time.Hour)
	if !errors.Is(err, context.Canceled) || time.Since(start) > 5*time.Second {
		t.Errorf("after %s: %v, want the context's end", time.Since(start), err)
	}
}

// A list whose next page is the same page ends there.
func TestAListWithoutEnd(t *testing.T) {
	client := against(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(HeaderNext, r.URL.Query().Get("after")+"1")
		if len(r.URL.Query().Get("after")) > 50 {
			w.Header().Set(HeaderNext, r.URL.Query().Get("after"))
		}
		_, _ = io.WriteString(w, "[]")
	})
	_, err := client.AllNodes(t.Context(), NodeFilter{})
	must(t, err) // the same cursor twice is the end
}

func TestRetryAfter(t *testing.T) {
	client := against(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(429)
	})
	_, err := client.Info(t.Context())
	var answer *AnswerError
	if !errors.As(err, &answer) || answer.RetryAfter != 7*time.Second || !errors.Is(err, node.Busy) {
		t.Errorf("error is %v", err)
	}
}

// The client sends the signed data byte for byte.
func TestReserveKeepsBytes(t *testing.T) {
	var sent []byte
	client := against(t, func(w http.ResponseWriter, r *http.Request) {
		sent, _ = io.ReadAll(r.Body)
		w.Header().Set("Location", "/reservations/5-1")
		w.WriteHeader(201)
	})
	key, err := sign.Generate()
	must(t, err)
	r := &workload.Reservation{
		NodeID: key.ID(), Type: workload.TypeVolume, Version: workload.V1, Data: json.RawMessage("{ \"size\": 1,\n \"type\": \"<&>\" }"),
		Created: time.Now(), Duration: time.Hour,
	}
	must(t, r.Sign(key.Private()))
	id, err := client.Reserve(t.Context(), r)
	must(t, err)
	got, err := workload.Decode(sent)
	must(t, err)
	if id != "5-1" || string(got.Data) != string(r.Data) {
		t.Errorf("ID %s; sent %s", id, sent)
	}
	must(t, workload.Verify(got))
}

func TestConfigIsChecked(t *testing.T) {
	for _, url := range []string{"", "localhost:80", "ftp://x", "http://", "http://user:pw@x", "http://x/?a=b", "://", "http://[::1"} {
		if _, err := NewClient(Config{URL: url}); node.KindOf(err) != node.Invalid {
			t.Errorf("URL %q: %v", url, err)
		}
	}
	if _, err := NewClient(Config{URL: "http://x", Timeout: -1}); err == nil {
		t.Error("a negative timeout is accepted")
	}
	if _, err := NewClient(Config{URL: "http://x", Signer: &Signer{}}); err == nil {
		t.Error("an empty signer is accepted")
	}
	c, err := NewClient(Config{URL: "http://127.0.0.1:1"})
	must(t, err)
	if err := c.Heartbeat(t.Context(), "n", Heartbeat{}); node.KindOf(err) != node.Invalid {
		t.Errorf("a signed write without a key: %v", err)
	}
	if _, err := c.Info(t.Context()); node.KindOf(err) != node.Transient {
		t.Errorf("nobody listens: %v", err)
	}
}

func TestASignerThatFails(t *testing.T) {
	client := against(t, text(201, ""), func(c *Config) {
		c.Signer.Sign = func([]byte) ([]byte, error) { return nil, node.Errorf(node.Transient, "cannot reach identity") }
	})
	if err := client.Heartbeat(t.Context(), "n", Heartbeat{}); node.KindOf(err) != node.Transient {
		t.Errorf("error is %v", err)
	}
}

func TestHTTPStore(t *testing.T) {
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, r.Method+" "+r.URL.String())
		switch {
		case r.Method == "PUT" && !strings.HasSuffix(r.URL.Path, "deleted") && !strings.Contains(string(body), `"id":"3-1"`):
			w.WriteHeader(400)
		case r.Method == "GET" && strings.Contains(r.URL.Path, "poll"):
			_, _ = io.WriteString(w, `[]`)
		case r.Method == "GET":
			_, _ = io.WriteString(w, `{"id":"3-1","node_id":"n","user_id":"u","type":"volume","data":{},"created":"2026-01-01T00:00:00Z","duration":1,"to_delete":false,"result":null}`)
		case r.Method == "POST":
			w.Header().Set("Location", "/reservations/3-1")
			w.WriteHeader(201)
		}
	}))
	defer server.Close()
	s := NewHTTPStore(server.URL)
	defer s.client.Close()
	list, err := s.Poll(workload.StrIdentifier("n"), 4)
	must(t, err)
	one, err := s.Get("3-1")
	must(t, err)
	id, err := s.Reserve(&workload.Reservation{NodeID: "n", Data: json.RawMessage("{}"), Created: time.Now()})
	must(t, err)
	must(t, s.Feedback("3-1", &workload.Result{Created: time.Now()}))
	must(t, s.Deleted("3-1"))
	must(t, s.Delete("3-1"))
	if len(list) != 0 || one.ID != "3-1" || id != "3-1" {
		t.Errorf("%v %v %v", list, one, id)
	}
	want := "GET /reservations/n/poll?from=4|GET /reservations/3-1|POST /reservations/n|PUT /reservations/3-1|PUT /reservations/3-1/deleted|DELETE /reservations/3-1"
	if strings.Join(got, "|") != want {
		t.Errorf("it asked %s", strings.Join(got, "|"))
	}
	bad := NewHTTPStore("nowhere")
	if _, err := bad.Get("1-1"); err == nil {
		t.Error("a store without a URL answers")
	}
	for _, err := range []error{bad.Deleted("1-1"), bad.Delete("1-1"), bad.Feedback("1-1", &workload.Result{})} {
		if node.KindOf(err) != node.Invalid {
			t.Errorf("error is %v", err)
		}
	}
}

// The signed bytes are spelled out here, so that a change of them fails a test.
func TestSignedBytes(t *testing.T) {
	w := Write{Role: RoleNode, Key: "K", Method: "POST", Host: "Example.org:80", Path: "/nodes", Body: []byte("{}"), Time: time.Unix(1, 2)}
	want := "croft-node-write-v1\x00" + "\x00\x00\x00\x01K" + "\x00\x00\x00\x04POST" + "\x00\x00\x00\x0eexample.org:80" + "\x00\x00\x00\x06/nodes" +
		"\x00\x00\x00\x20\x44\x13\x6f\xa3\x55\xb3\x67\x8a\x11\x46\xad\x16\xf7\xe8\x64\x9e\x94\xfb\x4f\xc2\x1f\xe7\x7e\x83\x10\xc0\x60\xf6\x1c\xaa\xff\x8a" +
		"\x00\x00\x00\x00\x3b\x9a\xca\x02"
	if got := string(w.SigningBytes()); got != want {
		t.Errorf("signed bytes are %q, want %q", got, want)
	}
	w.Role = RoleUser
	if !strings.HasPrefix(string(w.SigningBytes()), "croft-user-write-v1\x00") {
		t.Error("a user's write has the node's domain")
	}
	g := Grant{Created: time.Unix(0, 3)}
	want = "croft-farm-join-v1\x00" + "\x00\x00\x00\x01N" + "\x00\x00\x00\x00\x00\x00\x00\x07" + "\x00\x00\x00\x00\x00\x00\x00\x03"
	if got := string(g.SigningBytes(7, "N")); got != want {
		t.Errorf("a grant's signed bytes are %q, want %q", got, want)
	}
}
