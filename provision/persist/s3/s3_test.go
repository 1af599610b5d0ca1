package s3_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/croft-edge/croft/internal/testing/s3test"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/persist"
	"github.com/croft-edge/croft/provision/persist/conformance"
	"github.com/croft-edge/croft/provision/persist/fs"
	"github.com/croft-edge/croft/provision/persist/s3"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// instance is a place below a prefix, with the right keys.
func instance(address, prefix string) s3.Instance {
	return s3.Instance{
		Settings: s3.Settings{Endpoint: address, Bucket: s3test.Bucket, Prefix: prefix, PathStyle: true, Plain: true}, Keys: s3test.Keys,
	}
}

func provider(t *testing.T, c s3.Config) persist.Provider {
	t.Helper()
	if c.Secrets == nil {
		c.Secrets = s3test.Known()
	}
	p, err := s3.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// prefixOf is where in the bucket a request is.
func prefixOf(r *http.Request) string {
	in := strings.TrimPrefix(r.URL.Path, "/"+s3test.Bucket+"/")
	if in == r.URL.Path {
		in = r.URL.Query().Get("prefix")
	}
	prefix, _, _ := strings.Cut(in, "/")
	return prefix
}

func TestConforms(t *testing.T) {
	server := s3test.New(t)
	worlds := 0
	conformance.Run(t, func(t *testing.T) conformance.World {
		worlds++
		proxy := s3test.NewProxy(t, server)
		var mu sync.Mutex
		now, slow, broken := time.Now(), map[string]time.Duration{}, map[string]bool{}
		proxy.Before(func(_ http.ResponseWriter, r *http.Request) bool {
			mu.Lock()
			defer mu.Unlock()
			if broken[prefixOf(r)] {
				s3test.Abort()
			}
			now = now.Add(slow[prefixOf(r)])
			return false
		})
		c := s3.Config{Now: func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			return now
		}}
		prefixes := map[string]string{}
		for _, name := range []string{"one", "other"} {
			i := instance(proxy.Address, fmt.Sprintf("%s-%d", name, worlds))
			c.Instances = append(c.Instances, i)
			i.Region = s3.DefaultRegion
			name, err := persist.InstanceName(s3.Kind, i.Settings)
			if err != nil {
				t.Fatal(err)
			}
			prefixes[name] = i.Prefix
		}
		set := func(do func()) {
			mu.Lock()
			defer mu.Unlock()
			do()
		}
		return conformance.World{
			Open:  func(t *testing.T) persist.Provider { return provider(t, c) },
			Break: func(_ *testing.T, at string) { set(func() { broken[prefixes[at]] = true }) },
			Mend:  func(_ *testing.T, at string) { set(func() { broken[prefixes[at]] = false }) },
			Slow:  func(_ *testing.T, at string, took time.Duration) { set(func() { slow[prefixes[at]] = took }) },
		}
	})
}

// world is one instance behind a proxy, that is up and has an object.
type world struct {
	server *s3test.Server
	proxy  *s3test.Proxy
	p      persist.Provider
	at     string
}

func newWorld(t *testing.T, server *s3test.Server, prefix string, c s3.Config) *world {
	t.Helper()
	proxy := s3test.NewProxy(t, server)
	c.Instances = []s3.Instance{instance(proxy.Address, prefix)}
	p := provider(t, c)
	w := &world{server: server, proxy: proxy, p: p, at: p.Instances()[0]}
	w.up(t)
	for _, name := range []string{"a", "b"} {
		w.surely(t, func() error {
			_, err := p.PutObject(t.Context(), w.at, persist.Object{Kind: "note", Name: name, Body: bytes.Repeat([]byte("text of "+name), 1000)})
			return err
		})
	}
	return w
}

func (w *world) up(t *testing.T) {
	t.Helper()
	w.surely(t, func() error { return nil })
}

// surely brings the instance up and calls do until both succeed: a sound server on a busy machine may be slower than the patience of
// a test.
func (w *world) surely(t *testing.T, do func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); {
		if err = w.p.Initialize(t.Context(), conformance.Machine); err == nil {
			err = do()
		}
		if err == nil {
			return
		}
	}
	t.Fatal(err)
}

// each does every kind of call, and returns its errors by name. What a failed call brings down is brought up again first.
func (w *world) each(t *testing.T, mend func(), hurt func()) map[string]error {
	t.Helper()
	out := map[string]error{}
	for what, do := range map[string]func() error{
		"put": func() error {
			_, err := w.p.PutObject(t.Context(), w.at, persist.Object{Kind: "note", Name: "new"})
			return err
		},
		"get": func() error {
			o, err := w.p.GetObject(t.Context(), w.at, "note", "a")
			if err != nil && len(o.Body) > 0 {
				t.Error("bytes come with an error")
			}
			return err
		},
		"keys": func() error {
			_, err := w.p.Keys(t.Context(), w.at, "note")
			return err
		},
		"delete": func() error { return w.p.DeleteObject(t.Context(), w.at, "note", "new") },
	} {
		mend()
		w.up(t)
		hurt()
		out[what] = do()
	}
	mend()
	w.surely(t, func() error {
		o, err := w.p.GetObject(t.Context(), w.at, "note", "a")
		if err == nil && len(o.Body) != 9000 {
			t.Errorf("afterwards it has %d bytes", len(o.Body))
		}
		return err
	})
	return out
}

// Each answer has its kind, is asked for a few times at most, and the server's text is never repeated.
func TestAnswers(t *testing.T) {
	server := s3test.New(t)
	for i, c := range []struct {
		status int
		code   string
		kind   node.Kind
	}{
		{403, "AccessDenied", node.Refused}, {403, "SignatureDoesNotMatch", node.Refused}, {403, "RequestTimeTooSkewed", node.Refused}, {401, "Unauthorized", node.Refused},
		{404, "NoSuchBucket", node.Refused}, {500, "InternalError", node.Transient}, {503, "SlowDown", node.Transient}, {429, "TooManyRequests", node.Transient},
		{507, "InsufficientStorage", node.NoSpace}, {400, "QuotaExceeded", node.NoSpace}, {301, "PermanentRedirect", node.Refused}, {307, "TemporaryRedirect", node.Refused},
	} {
		t.Run(fmt.Sprint(c.status, c.code), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, server, fmt.Sprint("p", i), s3.Config{})
			answered := 0 // the proxy calls one after the other: tries follow each other
			errs := w.each(t, func() { w.proxy.Before(nil) }, func() {
				w.proxy.Before(func(rw http.ResponseWriter, _ *http.Request) bool {
					answered++
					rw.Header().Set("Location", "http://127.0.0.1:1/")
					s3test.Answer(rw, c.status, c.code)
					return true
				})
			})
			for what, err := range errs {
				if node.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.code) || strings.Contains(err.Error(), "a text of the server") || len(err.Error()) > 400 {
					t.Errorf("%s: %v (%s), want %s", what, err, node.KindOf(err), c.kind)
				}
			}
			if answered < len(errs) || answered > 3*len(errs) {
				t.Errorf("%d calls asked %d times", len(errs), answered)
			}
		})
	}
}

// An object that isn't there is told from a bucket that isn't.
func TestNotExist(t *testing.T) {
	w := newWorld(t, s3test.New(t), "a/b", s3.Config{})
	w.proxy.Before(func(rw http.ResponseWriter, _ *http.Request) bool {
		s3test.Answer(rw, 404, "NoSuchKey")
		return true
	})
	if _, err := w.p.GetObject(t.Context(), w.at, "note", "a"); node.KindOf(err) != node.NotExist {
		t.Errorf("%v", err)
	}
	if err := w.p.DeleteObject(t.Context(), w.at, "note", "a"); err != nil {
		t.Errorf("%v", err)
	}
	if s := w.p.InstanceStatus(w.at); !s.Status {
		t.Errorf("%+v", s)
	}
}

// A server that says nothing, breaks off, or isn't an S3 server costs a bounded time, and gives no bytes.
func TestNoAnswers(t *testing.T) {
	server := s3test.New(t)
	for what, before := range map[string]func(rw http.ResponseWriter, r *http.Request) bool{
		"hangs": func(_ http.ResponseWriter, r *http.Request) bool {
			_, _ = io.Copy(io.Discard, r.Body) // until then nobody sees that the client has gone
			<-r.Context().Done()
			return true
		},
		"hangs in its answer": func(rw http.ResponseWriter, r *http.Request) bool {
			rw.Header().Set("Content-Length", "1000")
			_, _ = io.Copy(io.Discard, r.Body)
			rw.WriteHeader(200)
			rw.(http.Flusher).Flush()
			<-r.Context().Done()
			return true
		},
		"breaks off": func(rw http.ResponseWriter, _ *http.Request) bool {
			rw.Header().Set("Content-Length", "1000")
			_, _ = rw.Write([]byte("croft-object 1 "))
			rw.(http.Flusher).Flush()
			s3test.Abort()
			return true
		},
		"closes": func(http.ResponseWriter, *http.Request) bool { s3test.Abort(); return true },
		"is a web page": func(rw http.ResponseWriter, _ *http.Request) bool {
			_, _ = rw.Write([]byte("<html>log in</html>"))
			return true
		},
		"says nothing":   func(http.ResponseWriter, *http.Request) bool { return true },
		"lists for ever": endless,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, server, strings.ReplaceAll(what, " ", "-"), s3.Config{Silence: 2 * time.Second, Patience: 10 * time.Second})
			errs := w.each(t, func() { w.proxy.Before(nil) }, func() { w.proxy.Before(before) })
			whole := what == "is a web page" || what == "says nothing" || what == "lists for ever"
			for call, err := range errs {
				want := node.Transient
				switch {
				case call == "delete" && (whole || what == "hangs in its answer" || what == "breaks off"), call == "put" && what == "hangs in its answer":
					continue // nobody can tell
				}
				if node.KindOf(err) != want {
					t.Errorf("%s: %v (%s), want %s", call, err, node.KindOf(err), want)
				}
			}
		})
	}
}

// endless answers every listing with another page, empty or of the same.
func endless(rw http.ResponseWriter, _ *http.Request) bool {
	rw.Header().Set("Content-Type", "application/xml")
	fmt.Fprintf(rw, `<?xml version="1.0"?><ListBucketResult><Name>croft</Name><IsTruncated>true</IsTruncated><NextContinuationToken>%d</NextContinuationToken></ListBucketResult>`, time.Now().UnixNano())
	return true
}

// Wrong bytes never come back: others' objects, changed, cut and longer ones, of the wrong length, endless.
func TestLies(t *testing.T) {
	w := newWorld(t, s3test.New(t), "a/b", s3.Config{})
	read := func(name string) []byte {
		t.Helper()
		var kept []byte
		w.proxy.After(func(_ *http.Response, body []byte) []byte {
			kept = bytes.Clone(body)
			return body
		})
		defer w.proxy.After(nil)
		if _, err := w.p.GetObject(t.Context(), w.at, "note", persist.Key(name)); err != nil {
			t.Fatal(err)
		}
		return kept
	}
	a, b := read("a"), read("b")
	flipped := bytes.Clone(a)
	flipped[len(flipped)-3] ^= 1
	for what, lie := range map[string][]byte{
		"another object": b, "a changed one": flipped, "a cut one": a[:len(a)-1], "half of one": a[:len(a)/2], "a longer one": append(bytes.Clone(a), 'x'), "nothing": {},
		"another machine's": bytes.Replace(a, []byte(conformance.Machine), []byte(conformance.Other), 1), "a page": []byte("<html>"),
		"too much": append(bytes.Clone(a), make([]byte, persist.MaxFramed)...),
	} {
		w.proxy.After(func(_ *http.Response, body []byte) []byte { return lie })
		o, err := w.p.GetObject(t.Context(), w.at, "note", "a")
		if node.KindOf(err) != node.Invalid || len(o.Body) > 0 {
			t.Errorf("%s: %+v, %v (%s), want Invalid", what, o.Name, err, node.KindOf(err))
		}
	}
	w.proxy.After(nil)
	if s := w.p.InstanceStatus(w.at); !s.Status {
		t.Errorf("lies about an object take the instance down: %+v", s)
	}
	// A listing of what isn't below the prefix.
	w.proxy.After(func(_ *http.Response, body []byte) []byte {
		return bytes.ReplaceAll(body, []byte("<Key>a/b/note/"), []byte("<Key>a/other/note/"))
	})
	if keys, err := w.p.Keys(t.Context(), w.at, "note"); node.KindOf(err) != node.Transient {
		t.Errorf("%v, %v", keys, err)
	}
}

// One that is cut short on its way once is asked for again.
func TestABrokenConnectionIsTriedAgain(t *testing.T) {
	w := newWorld(t, s3test.New(t), "a/b", s3.Config{})
	left := 2
	var mu sync.Mutex
	w.proxy.Before(func(rw http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		if left == 0 {
			return false
		}
		left--
		rw.Header().Set("Content-Length", "1000")
		rw.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
		_, _ = rw.Write([]byte("croft"))
		rw.(http.Flusher).Flush()
		s3test.Abort()
		return true
	})
	if o, err := w.p.GetObject(t.Context(), w.at, "note", "a"); err != nil || len(o.Body) != 9000 {
		t.Errorf("%d bytes, %v", len(o.Body), err)
	}
}

// The server goes and comes back with what it had; a wrong key is refused.
func TestServerGoesAndComes(t *testing.T) {
	server := s3test.New(t)
	p := provider(t, s3.Config{Instances: []s3.Instance{instance(server.Address, "x")}})
	at := p.Instances()[0]
	if err := p.Initialize(t.Context(), conformance.Machine); err != nil {
		t.Fatal(err)
	}
	if _, err := p.PutObject(t.Context(), at, persist.Object{Kind: "note", Name: "a", Body: []byte("1")}); err != nil {
		t.Fatal(err)
	}
	server.Stop()
	if _, err := p.GetObject(t.Context(), at, "note", "a"); node.KindOf(err) != node.Transient {
		t.Errorf("%v", err)
	}
	server.Start()
	if err := p.Initialize(t.Context(), conformance.Machine); err != nil {
		t.Fatal(err)
	}
	if o, err := p.GetObject(t.Context(), at, "note", "a"); err != nil || string(o.Body) != "1" {
		t.Errorf("%q, %v", o.Body, err)
	}
	// Keys that are missing or wrong have the instance down until it is brought up with the right ones.
	keys := s3test.Secrets{}
	q := provider(t, s3.Config{Instances: []s3.Instance{instance(server.Address, "y")}, Secrets: keys})
	if err := q.Initialize(t.Context(), conformance.Machine); err == nil || !strings.Contains(err.Error(), "s3-access") {
		t.Errorf("%v", err)
	}
	maps.Copy(keys, s3test.Known())
	keys["s3-secret"] = "wrong"
	err := q.Initialize(t.Context(), conformance.Machine)
	if node.KindOf(err) != node.Refused || strings.Contains(err.Error(), "wrong") {
		t.Errorf("%v", err)
	}
	maps.Copy(keys, s3test.Known())
	if err := q.Initialize(t.Context(), conformance.Machine); err != nil {
		t.Error(err)
	}
	missing := instance(server.Address, "y")
	missing.Bucket = "no-such-bucket"
	if err := provider(t, s3.Config{Instances: []s3.Instance{missing}}).Initialize(t.Context(), conformance.Machine); node.KindOf(err) != node.Refused {
		t.Errorf("%v", err)
	}
}

// Of two machines that come at the same time, one gets the prefix.
func TestTwoMachinesAtOnce(t *testing.T) {
	server := s3test.New(t)
	for round := range 5 {
		machines, errs := []persist.MachineID{conformance.Machine, conformance.Other}, make([]error, 2)
		var wait sync.WaitGroup
		for i, machine := range machines {
			p := provider(t, s3.Config{Instances: []s3.Instance{instance(server.Address, fmt.Sprint("r", round))}})
			wait.Go(func() { errs[i] = p.Initialize(t.Context(), machine) })
		}
		wait.Wait()
		if (errs[0] == nil) == (errs[1] == nil) {
			t.Fatalf("both or none: %v", errs)
		}
	}
}

// TLS is on unless it is switched off: a server without it gets no request, and no key.
func TestTLSIsOn(t *testing.T) {
	server := s3test.New(t)
	proxy := s3test.NewProxy(t, server)
	i := instance(proxy.Address, "x")
	i.Plain = false
	p := provider(t, s3.Config{Instances: []s3.Instance{i}})
	if err := p.Initialize(t.Context(), conformance.Machine); node.KindOf(err) != node.Transient {
		t.Errorf("%v", err)
	}
	if n := proxy.Requests("GET") + proxy.Requests("PUT"); n > 0 {
		t.Errorf("%d requests came without TLS", n)
	}
}

// Two S3 instances and a folder are in use at once, and one that goes takes no other with it.
func TestTwoS3AndAFolder(t *testing.T) {
	one, other := s3test.New(t), s3test.New(t)
	buckets := provider(t, s3.Config{Instances: []s3.Instance{instance(one.Address, "x"), instance(other.Address, "x")}})
	folders, err := fs.New(fs.Config{Instances: []fs.Settings{{Folder: t.TempDir()}}})
	if err != nil {
		t.Fatal(err)
	}
	type place struct {
		p  persist.Provider
		at string
	}
	places := []place{{buckets, buckets.Instances()[0]}, {buckets, buckets.Instances()[1]}, {folders, folders.Instances()[0]}}
	for _, x := range places {
		if err := x.p.Initialize(t.Context(), conformance.Machine); err != nil {
			t.Fatal(err)
		}
	}
	var wait sync.WaitGroup
	for _, x := range places {
		wait.Go(func() {
			for i := range 20 {
				if _, err := x.p.PutObject(t.Context(), x.at, persist.Object{Kind: "note", Name: fmt.Sprint(i), Body: []byte(x.at)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	one.Stop()
	for i, x := range places {
		soon, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		o, err := x.p.GetObject(soon, x.at, "note", "7")
		cancel()
		if (err != nil) != (i == 0) || err == nil && string(o.Body) != x.at || x.p.InstanceStatus(x.at).Status != (i > 0) {
			t.Errorf("%s: %q, %v", x.at, o.Body, err)
		}
	}
}
