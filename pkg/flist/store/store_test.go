package store_test

import (
	"context"
	"crypto/sha256"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/croft-edge/croft/internal/testing/flisttest"
	"github.com/croft-edge/croft/internal/testing/imagetest"
	"github.com/croft-edge/croft/pkg/dial"
	"github.com/croft-edge/croft/pkg/fetch"
	"github.com/croft-edge/croft/pkg/flist"
	"github.com/croft-edge/croft/pkg/flist/store"
	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/resp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// servers are settings that allow some servers, also without TLS.
func servers(t *testing.T, allowed ...string) fetch.Config {
	t.Helper()
	c := dial.Config{Own: func() []netip.Prefix { return nil }, Log: zerolog.Nop()}
	for _, text := range allowed {
		e, err := dial.ParseException(text)
		must(t, err)
		c.Allow = append(c.Allow, e)
	}
	d, err := dial.New(c)
	must(t, err)
	return fetch.Config{Dialer: d, PlainHTTP: allowed, Silence: 30 * time.Second}
}

func open(t *testing.T, c fetch.Config, routes ...flist.Route) *store.Stores {
	t.Helper()
	s, err := store.Open(c, routes)
	must(t, err)
	t.Cleanup(s.Close)
	return s
}

// all is a route of all blocks.
func all(url string) flist.Route { return flist.Route{First: 0, Last: 255, URL: url} }

// made is a flist of one file of some blocks.
func made(t *testing.T, blocks int) (flisttest.Made, map[flist.Hash]flist.Block) {
	t.Helper()
	random := make([]byte, blocks*flist.BlockSize)
	_, _ = rand.NewChaCha8(sha256.Sum256([]byte(t.Name()))).Read(random)
	m := flisttest.Made{Blocks: map[flist.Hash][]byte{}}
	out := map[flist.Hash]flist.Block{}
	for i := range blocks {
		b, stored, err := flisttest.Seal(random[i*flist.BlockSize:][:flist.BlockSize])
		must(t, err)
		m.Blocks[b.ID], out[b.ID] = stored, b
	}
	return m, out
}

func web(t *testing.T) *flisttest.Server {
	t.Helper()
	s, err := flisttest.StartServer(nil)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func base(s *flisttest.Server) string { return "http://" + s.Host + flisttest.Blobs }

// fetched fails unless all blocks come.
func fetched(t *testing.T, s *store.Stores, blocks map[flist.Hash]flist.Block) {
	t.Helper()
	for _, b := range blocks {
		if plain, err := s.Block(t.Context(), b, flist.BlockSize); err != nil || !b.Is(plain) {
			t.Errorf("%d bytes, %v", len(plain), err)
		}
	}
}

// refused fails unless a block can't be had for that reason.
func refused(t *testing.T, s *store.Stores, b flist.Block, kind node.Kind, says ...string) {
	t.Helper()
	plain, err := s.Block(t.Context(), b, flist.BlockSize)
	if err == nil {
		t.Fatalf("%d bytes came", len(plain))
	}
	for _, one := range says {
		if node.KindOf(err) != kind || !strings.Contains(err.Error(), one) || !strings.HasPrefix(err.Error(), "cannot ") {
			t.Errorf("%v (%s), want %s and %q", err, node.KindOf(err), kind, one)
		}
	}
}

func one(blocks map[flist.Hash]flist.Block) flist.Block {
	for _, b := range blocks {
		return b
	}
	return flist.Block{}
}

// A store over HTTP has blocks in folders, or in the older layout; each is asked for once, once the layout is known.
func TestHTTP(t *testing.T) {
	m, blocks := made(t, 4)
	s := web(t)
	s.Put("/list.fl", m)
	fetched(t, open(t, servers(t, s.Host), all(base(s)+"/")), blocks)
	s.Remove(flisttest.Blobs)
	for id, stored := range m.Blocks {
		s.PutFile(flisttest.Blobs+"/"+id.String(), stored)
	}
	s.Forget()
	fetched(t, open(t, servers(t, s.Host), all(base(s))), blocks)
	if seen := s.Seen(); seen.Requests != 5 {
		t.Errorf("%d requests for 4 blocks, want one more", seen.Requests)
	}
	s.Remove(flisttest.Blobs)
	refused(t, open(t, servers(t, s.Host), all(base(s))), one(blocks), node.Refused, base(s)+": it has no such block")
}

// zdbOf is a zdb with blocks in the namespace open, and with a password in the namespace closed.
func zdbOf(t *testing.T, m flisttest.Made) *flisttest.ZDB {
	t.Helper()
	z, err := flisttest.StartZDB(t.TempDir())
	must(t, err)
	t.Cleanup(func() { must(t, z.Close()) })
	must(t, z.Put("open", "", m.Blocks))
	must(t, z.Put("closed", "secret", m.Blocks))
	return z
}

// A zdb has blocks in a namespace, with or without a password, which no error shows.
func TestZDB(t *testing.T) {
	m, blocks := made(t, 3)
	z := zdbOf(t, m)
	c := servers(t, z.Host)
	for _, url := range []string{"zdb://" + z.Host + "/open", "zdb://:secret@" + z.Host + "/closed", "zdb://me:secret@" + z.Host + "/closed"} {
		fetched(t, open(t, c, all(url)), blocks)
	}
	refused(t, open(t, c, all("zdb://"+z.Host+"/none")), one(blocks), node.Refused, `it says "`)
	refused(t, open(t, c, all("zdb://"+z.Host+"/closed")), one(blocks), node.Refused, `it says "`)
	_, err := open(t, c, all("zdb://me:wrong-secret@"+z.Host+"/closed")).Block(t.Context(), one(blocks), flist.BlockSize)
	if node.KindOf(err) != node.Refused || !strings.Contains(err.Error(), `it says "`) || strings.Contains(err.Error(), "secret") {
		t.Errorf("a wrong password: %v", err)
	}
	other, _, err := flisttest.Seal([]byte("other"))
	must(t, err)
	refused(t, open(t, c, all("zdb://"+z.Host+"/open")), other, node.Refused, "it has no such block")
}

// stub is a server on loopback that has each of its connections served by the next of some functions, and then closed.
func stub(t *testing.T, serve ...func(c net.Conn)) (host string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, f := range serve {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f(c)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l.Addr().String()
}

// answers reads a request before each of some answers, and then until the client goes.
func answers(texts ...string) func(c net.Conn) {
	return func(c net.Conn) {
		in := resp.NewReader(c, resp.Limits{Argument: 1 << 10, Arguments: 4, Request: 1 << 12})
		for _, text := range texts {
			if _, err := in.Next(); err != nil {
				return
			}
			_, _ = c.Write([]byte(text))
		}
		for {
			if _, err := in.Next(); err != nil {
				return
			}
		}
	}
}

// A zdb whose connection breaks is connected to again; one that answers nonsense or nothing is given up.
func TestHostileZDB(t *testing.T) {
	m, blocks := made(t, 1)
	b := one(blocks)
	right := "$" + strconv.Itoa(len(m.Blocks[b.ID])) + "\r\n" + string(m.Blocks[b.ID]) + "\r\n"
	host := stub(t, func(net.Conn) {}, answers("+OK\r\n", right))
	s := open(t, servers(t, host), all("zdb://"+host+"/n"))
	refused(t, s, b, node.Transient, "the connection broke")
	fetched(t, s, blocks)
	for says, texts := range map[string][]string{
		"must be at most 611717": {"+OK\r\n", "$1000000000\r\n"},
		"its first line is":      {"+OK\r\n", "HTTP/1.1 200 OK\r\n\r\n"},
		"aren't those of its ID": {"+OK\r\n", "$3\r\nabc\r\n"},
		`it says "no"`:           {"-no\r\n"},
		"first line is longer":   {strings.Repeat("x", 1<<16)},
		"i/o timeout":            {"+OK\r\n"},
	} {
		host := stub(t, answers(texts...))
		c := servers(t, host)
		c.Silence = time.Second
		kind := node.Transient
		if strings.HasPrefix(says, "it says") || strings.HasPrefix(says, "aren't") {
			kind = node.Refused
		}
		refused(t, open(t, c, all("zdb://"+host+"/n")), b, kind, says)
	}
}

// What comes too slowly is given up, however it is spread.
func TestSlowStores(t *testing.T) {
	b, _, err := flisttest.Seal([]byte("content"))
	must(t, err)
	drip := func(head string) func(c net.Conn) {
		return func(c net.Conn) {
			_, _ = c.Read(make([]byte, 1<<10)) // the first request
			_, _ = c.Write([]byte(head))
			for range 1000 {
				if _, err := c.Write([]byte("x")); err != nil {
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
		}
	}
	for url, head := range map[string]string{"http://": "HTTP/1.1 200 OK\r\n\r\n", "zdb://": "+OK\r\n$611717\r\n"} {
		host := stub(t, drip(head))
		c := servers(t, host)
		c.Silence = time.Second
		before := limit.Times()[store.Speed.Name]
		_, err := open(t, c, all(url+host+"/n")).Block(t.Context(), b, len("content"))
		if node.KindOf(err) != node.Transient || !strings.Contains(err.Error(), "it sends less than 256 KiB a minute") || limit.Times()[store.Speed.Name] != before+1 {
			t.Errorf("%s: %v (%s)", url, err, node.KindOf(err))
		}
	}
}

// A store of objects forbids what isn't there: its blocks are found in the older layout all the same.
func TestStoreThatForbids(t *testing.T) {
	m, blocks := made(t, 2)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for id, stored := range m.Blocks {
			if r.URL.Path == "/"+id.String() {
				_, _ = w.Write(stored)
				return
			}
		}
		http.Error(w, "AccessDenied", http.StatusForbidden)
	}))
	defer s.Close()
	host := strings.TrimPrefix(s.URL, "http://")
	fetched(t, open(t, servers(t, host), all(s.URL)), blocks)
}

// A server that lies, stalls or breaks gives no block, and says why.
func TestLyingServers(t *testing.T) {
	m, blocks := made(t, 1)
	s := web(t)
	s.Put("/list.fl", m)
	for name, c := range map[string]struct {
		faults imagetest.Faults
		kind   node.Kind
		says   string
	}{
		"other bytes":               {imagetest.Faults{Change: func(_ string, body []byte) []byte { return append([]byte("x"), body[1:]...) }}, node.Refused, "aren't those of its ID"},
		"more bytes":                {imagetest.Faults{Change: func(_ string, body []byte) []byte { return append(body[:len(body):len(body)], make([]byte, 1<<20)...) }}, node.Refused, "sends more than the 611717 bytes"},
		"endless":                   {imagetest.Faults{Endless: true}, node.Refused, "sends more than"},
		"cuts":                      {imagetest.Faults{CutAfter: 1000}, node.Transient, ""},
		"hangs":                     {imagetest.Faults{HangAfter: 1000}, node.Transient, "said nothing for"},
		"is busy":                   {imagetest.Faults{Status: 503}, node.Transient, "it answers 503 Service Unavailable"},
		"is closed":                 {imagetest.Faults{Status: 403}, node.Refused, "it answers 403 Forbidden"},
		"redirects":                 {imagetest.Faults{Redirect: "http://10.0.0.1"}, node.Refused, "10.0.0.1"},
		"redirects to this machine": {imagetest.Faults{Redirect: "https://127.0.0.1:1"}, node.Refused, "127.0.0.1"},
	} {
		s.Set(c.faults)
		config := servers(t, s.Host)
		config.Silence = time.Second
		t.Log(name)
		refused(t, open(t, config, all(base(s))), one(blocks), c.kind, c.says)
	}
	s.Set(imagetest.Faults{})
	fetched(t, open(t, servers(t, s.Host), all(base(s))), blocks)
	config := servers(t, s.Host)
	config.PlainHTTP = nil
	refused(t, open(t, config, all(base(s))), one(blocks), node.Refused, "servers are asked over https only")
	refused(t, open(t, servers(t), all("https://127.0.0.1:1/blobs")), one(blocks), node.Refused, "127.0.0.1")
	refused(t, open(t, servers(t), all("zdb://127.0.0.1/n")), one(blocks), node.Refused, "127.0.0.1:9900")
}

// Each store that should have a block is asked, those that failed last; what can't have it isn't.
func TestRoutes(t *testing.T) {
	m, blocks := made(t, 12)
	good, bad := web(t), web(t)
	good.Put("/list.fl", m)
	c := servers(t, good.Host, bad.Host)
	s := open(t, c, all(base(bad)), all(base(good)))
	fetched(t, s, blocks)
	// Whichever came first, the bad one is asked once, in both layouts, if at all.
	if seen := bad.Seen(); seen.Requests > 2 {
		t.Errorf("a store without blocks was asked %d times", seen.Requests)
	}
	b := one(blocks)
	narrow := open(t, c, flist.Route{First: b.ID[0], Last: b.ID[0], URL: base(good)})
	if other := (flist.Hash{b.ID[0] + 1}); !narrow.Has(b.ID) || narrow.Has(other) {
		t.Errorf("a route of %d has %t, and %t of the next", b.ID[0], narrow.Has(b.ID), narrow.Has(other))
	}
	refused(t, narrow, flist.Block{ID: flist.Hash{b.ID[0] + 1}}, node.Refused, "none of its routes has block")
	if _, err := narrow.Block(t.Context(), b, flist.BlockSize); err != nil {
		t.Error(err)
	}
	bad.Set(imagetest.Faults{Status: 503})
	nowhere := open(t, c, all(base(bad)), all("https://[fd00::1]/x"))
	refused(t, nowhere, b, node.Transient, "503", "fd00::1")
}

// A flist that names anything but a server elsewhere is refused before anything is asked.
func TestRefusedRoutes(t *testing.T) {
	for url, says := range map[string]string{
		"dir:///etc":                     `its route "dir:///etc": allowed are http://, https:// and zdb://`,
		"/etc":                           "allowed are http://",
		"zdb:///run/zdb.sock":            "it names no host",
		"s3://key:secret@example.org/b":  "allowed are http://",
		"file:///etc/passwd":             "allowed are http://",
		"http:///blocks":                 "it names no host",
		"https://me:secret@example.org":  "it names a user",
		"https://example.org/a?b=c":      "it must end in a path",
		"https://example.org/a#b":        "it must end in a path",
		"zdb://example.org":              "must be the name of a namespace",
		"zdb://example.org/a/b":          "must be the name of a namespace",
		"zdb://example.org/a%0d%0aQUIT":  "must be the name of a namespace",
		"zdb://:se%0acret@example.org/a": "its password must have",
		"zdb://:se cret@exa mple/a":      "can't be read",
	} {
		_, err := store.Open(servers(t), []flist.Route{all("https://example.org/blocks"), all(url)})
		if node.KindOf(err) != node.Refused || !strings.Contains(err.Error(), says) || !strings.HasPrefix(err.Error(), "cannot use the flist: ") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", url, err, says)
		}
	}
	if _, err := store.Open(fetch.Config{}, nil); node.KindOf(err) != node.Invalid {
		t.Errorf("without a dialer: %v", err)
	}
}

// The end of a context ends a fetch at once.
func TestContext(t *testing.T) {
	m, blocks := made(t, 1)
	s := web(t)
	s.Put("/list.fl", m)
	s.Set(imagetest.Faults{Silent: true})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := open(t, servers(t, s.Host), all(base(s))).Block(ctx, one(blocks), flist.BlockSize); node.KindOf(err) != node.Transient {
		t.Errorf("%v", err)
	}
}
