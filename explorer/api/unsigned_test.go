package api

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	wire "github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/strictjson"
)

// longPaths is JSON of that size whose members have long, distinct paths.
func longPaths(size int) string {
	name := strings.Repeat("n", size/2)
	return `{"` + name + `":[` + strings.Repeat(`{"a":0},`, (size/2-20)/8) + `{}]}`
}

// Parsing a stranger's body before its signature is checked allocates a small multiple
// of the body's length. Regression: joining the path of each member of this
// megabyte made 34 GB of garbage in 15 s.
func TestUnsignedBodiesAreCheap(t *testing.T) {
	for name, unsigned := range map[string]bool{"default": false, "unsigned writes accepted": true} {
		t.Run(name, func(t *testing.T) {
			h := start(t, func(c *Config) { c.Policy.AcceptUnsignedNodeWrites = unsigned })
			key := newKey(t)
			for _, size := range []int{MaxBody, 16 << 10, 4 << 10} {
				for _, path := range []string{"/farms", "/nodes", "/nodes/" + key.ID() + "/uptime", "/nodes/" + key.ID() + "/configure_public", "/reservations/" + key.ID()} {
					r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(longPaths(size)[:size-100]))
					w := httptest.NewRecorder()
					var before, after runtime.MemStats
					runtime.ReadMemStats(&before)
					h.api.ServeHTTP(w, r)
					runtime.ReadMemStats(&after)
					if made := after.TotalAlloc - before.TotalAlloc; w.Code/100 != 4 || made > uint64(40*size+64<<10) {
						t.Errorf("%s: %d bytes are answered %d and made %d", path, size, w.Code, made)
					}
				}
			}
			_, c := h.node()
			if _, _, err := c.Nodes(t.Context(), wire.NodeFilter{}, wire.ListPage{}); err != nil {
				t.Error(err)
			}
		})
	}
}

// An unsigned body isn't parsed where a signature is required, and each route has its
// own limit of the body's size.
func TestBodiesAreBounded(t *testing.T) {
	h := start(t)
	key, _ := h.node()
	h.problem("POST", "/nodes", `{`, 401)
	h.problem("POST", "/farms", `{`, 401)
	space := func(n int64) string { return strings.Repeat(" ", int(n)) }
	for path, most := range map[string]int64{
		"POST /nodes": nodeBody.Each, "POST /nodes/" + key.ID() + "/uptime": nodeBody.Each, "POST /farms": farmBody.Each,
		"PUT /farms/1/nodes/" + key.ID(): farmBody.Each, "PUT /reservations/1-1": resultBody.Each, "PUT /reservations/1-1/renewal": documentBody.Each,
	} {
		method, path, _ := strings.Cut(path, " ")
		h.problem(method, path, space(most+1), 413)
		if status, _, _ := h.do(method, path, space(most)); status == 413 {
			t.Errorf("%s: %d bytes are too many", path, most)
		}
	}
}

// TestUnfinishedBodiesAreBounded: unfinished bodies block further large bodies of their source, not small ones.
func TestUnfinishedBodiesAreBounded(t *testing.T) {
	h := start(t)
	h.api.bodies = limit.Limit{Name: bodyBytes.Name, Per: "source", Each: 2 * MaxBody, Total: 8 * MaxBody, Unit: limit.Bytes}.Shares()
	key, _ := h.node()
	path := "/reservations/" + key.ID()
	var open []net.Conn
	for _, header := range []string{"Content-Length: 1048576", "Transfer-Encoding: chunked"} {
		conn, err := net.Dial("tcp", h.server.Listener.Addr().String())
		must(t, err)
		defer conn.Close()
		_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n", path, header)
		must(t, err)
		open = append(open, conn)
	}
	settle(t, "both are waited for", func() bool { return h.api.bodies.Held("127.0.0.1") == 2*MaxBody })
	before := limit.Times()[bodyBytes.Name]
	if status, header, _ := h.do("POST", path, strings.Repeat(" ", smallBody+1)); status != 503 || header.Get("Retry-After") == "" {
		t.Errorf("one more of that source is answered %d, Retry-After %q", status, header.Get("Retry-After"))
	}
	if limit.Times()[bodyBytes.Name] != before+1 {
		t.Error("the limit isn't seen")
	}
	h.problem("POST", path, strings.Repeat(" ", smallBody), 400)
	for _, conn := range open {
		must(t, conn.Close())
	}
	settle(t, "their room is given back", func() bool { return h.api.bodies.Total() == 0 })
	h.problem("POST", path, strings.Repeat(" ", smallBody+1), 400)
}

func TestMembersAreBounded(t *testing.T) {
	for body, ok := range map[string]bool{
		`{"a":{"b":[{"c":1},{"c":1}]}}`:                      true,
		`{"a":{"b":[{"c":1,"C":1}]}}`:                        false,
		`{"` + strings.Repeat("n", 256) + `":1}`:             true,
		`{"` + strings.Repeat("n", 257) + `":1}`:             false,
		`{"a":` + manyMembers(strictjson.MaxMembers) + `}`:   true,
		`{"a":` + manyMembers(strictjson.MaxMembers+1) + `}`: false,
		strings.Repeat("[", 32) + strings.Repeat("]", 32):    true,
		strings.Repeat("[", 33) + strings.Repeat("]", 33):    false,
	} {
		if err := checkJSON([]byte(body)); (err == nil) != ok {
			t.Errorf("%.60s: %v", body, err)
		}
	}
	err := checkJSON([]byte(`{"a":{"x":{},"b":[{"c":1,"C":1}]}}`))
	if err == nil || !strings.Contains(err.Error(), "a.b[0].C is") {
		t.Errorf("a member given twice is called: %v", err)
	}
}

func manyMembers(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`,"` + strings.Repeat("x", i%16) + string(rune('a'+i/16)) + `":0`)
	}
	return "{" + b.String()[1:] + "}"
}
