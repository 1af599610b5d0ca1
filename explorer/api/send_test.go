package api

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	wire "github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// unchecked accepts data that is invalid for its type.
func unchecked(c *Config) { c.Validate = nil }

// large pushes n reservations, each with data of that size in bytes.
func (h *harness) large(user sign.KeyPair, nodeID string, n, size int) {
	h.t.Helper()
	// Not checked against the OpenAPI document: that is slow.
	c, err := wire.NewClient(wire.Config{URL: h.server.URL})
	must(h.t, err)
	defer c.Close()
	for range n {
		_, err := c.Reserve(h.t.Context(), h.volume(user, nodeID, func(r *workload.Reservation) {
			r.Data = json.RawMessage(`{"x":"` + strings.Repeat("x", size) + `"}`)
		}))
		must(h.t, err)
	}
}

// Lists too long for one part return each item once, in order.
func TestListsComeInParts(t *testing.T) {
	h := start(t, unchecked)
	key, _ := h.node()
	user := newKey(t)
	h.large(user, key.ID(), 9, 400<<10)
	// Checking megabytes against the OpenAPI document is slow.
	anybody, err := wire.NewClient(wire.Config{URL: h.server.URL})
	must(t, err)
	defer anybody.Close()
	page, err := anybody.PollPage(t.Context(), key.ID(), wire.Cursor{}, 0)
	must(t, err)
	if len(page.Reservations) != 9 || page.Next != 9 || page.Head != 9 {
		t.Errorf("the page has %d reservations, next %d, head %d", len(page.Reservations), page.Next, page.Head)
	}
	from, err := anybody.PollFrom(t.Context(), key.ID(), 0)
	must(t, err)
	for i, r := range from {
		if r.ID != fmt.Sprintf("%d-1", i+1) {
			t.Errorf("item %d is %s", i, r.ID)
		}
	}
	if len(from) != 9 {
		t.Errorf("from=0 has %d", len(from))
	}
	h.large(user, key.ID(), 3, 500<<10)
	var ids []string
	for cursor := (wire.Cursor{}); ; {
		page, err := anybody.PollPage(t.Context(), key.ID(), cursor, 0)
		must(t, err)
		for _, raw := range page.Reservations {
			r, err := wire.Document(raw)
			must(t, err)
			ids = append(ids, r.ID)
		}
		if page.Next == page.Head {
			break
		}
		cursor = wire.Cursor{Epoch: page.Epoch, Change: page.Next}
	}
	if want := "1-1 2-1 3-1 4-1 5-1 6-1 7-1 8-1 9-1 10-1 11-1 12-1"; strings.Join(ids, " ") != want {
		t.Errorf("the pages have %v", ids)
	}
	for range 90 {
		key := newKey(t)
		must(t, h.client(wire.RoleNode, &key).RegisterNode(t.Context(), wire.Node{NodeID: key.ID(), OSVersion: strings.Repeat("v", 15<<10)}))
	}
	nodes, err := anybody.AllNodes(t.Context(), wire.NodeFilter{})
	must(t, err)
	some, after, err := anybody.Nodes(t.Context(), wire.NodeFilter{}, wire.ListPage{Limit: 91})
	must(t, err)
	if len(nodes) != 91 || len(some) != 91 || after == "" {
		t.Errorf("there are %d and %d nodes, after %q", len(nodes), len(some), after)
	}
	if some, after, err = anybody.Nodes(t.Context(), wire.NodeFilter{}, wire.ListPage{After: after}); err != nil || len(some) != 0 || after != "" {
		t.Errorf("after the last there are %d, %q, %v", len(some), after, err)
	}
}

func TestNodeDocumentsAreBounded(t *testing.T) {
	h := start(t)
	key, c := h.node()
	must(t, c.SetInterfaces(t.Context(), key.ID(), []wire.Iface{{Name: strings.Repeat("i", 10<<10)}}))
	if err := c.RegisterNode(t.Context(), wire.Node{NodeID: key.ID(), OSVersion: strings.Repeat("v", 10<<10)}); err == nil || !strings.Contains(err.Error(), "16384") {
		t.Errorf("a node of 20 KiB: %v", err)
	}
	// Data counts in its stored form, without the escapes that lengthen it in the request.
	other := newKey(t)
	if err := h.client(wire.RoleNode, &other).RegisterNode(t.Context(), wire.Node{NodeID: other.ID(), OSVersion: strings.Repeat("<", 2500)}); err != nil {
		t.Errorf("15 KiB of escapes: %v", err)
	}
}

// unread requests a path and doesn't read the response.
func (h *harness) unread(path string) {
	h.t.Helper()
	conn, err := net.Dial("tcp", h.server.Listener.Addr().String())
	must(h.t, err)
	h.t.Cleanup(func() { _ = conn.Close() })
	must(h.t, conn.(*net.TCPConn).SetReadBuffer(4096))
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
	must(h.t, err)
}

// Clients that don't read hold at most one source's share of the answers' memory, are
// cut off and give it back; other requests are answered meanwhile.
func TestSlowReadersAreCutOff(t *testing.T) {
	h := start(t, unchecked)
	h.api.reservations.send.answers = limit.Limit{Name: answerBytes.Name, Per: "source", Each: 2 * longAnswer, Total: 8 * longAnswer, Unit: limit.Bytes}.Shares()
	h.api.reservations.send.slowest = 5 * time.Second // both are written before the first is cut off, on a busy machine too
	key, _ := h.node()
	// More than the sockets' buffers hold.
	h.large(newKey(t), key.ID(), 20, 500<<10)
	before := limit.Times()[slowReaders.Name]
	for range 12 {
		h.unread("/reservations/" + key.ID() + "/poll?from=0")
	}
	settle(t, "two are answered", func() bool { return h.api.reservations.send.answers.Total() == 2*longAnswer })
	if got := h.api.reservations.send.answers.Held("127.0.0.1"); got > 2*longAnswer {
		t.Errorf("one source holds %d", got)
	}
	if status, header, _ := h.do("GET", "/reservations/"+key.ID()+"/poll?from=0", ""); status != 503 || header.Get("Retry-After") == "" {
		t.Errorf("one more of that source is answered %d, Retry-After %q", status, header.Get("Retry-After"))
	}
	if status, _, _ := h.do("GET", "/info", ""); status != 200 {
		t.Errorf("/info answers %d", status)
	}
	settle(t, "they are cut off", func() bool { return h.api.reservations.send.answers.Total() == 0 })
	settle(t, "two were cut off", func() bool { return limit.Times()[slowReaders.Name] == before+2 })
	resp, err := h.server.Client().Get(h.server.URL + "/reservations/" + key.ID() + "/poll?from=0")
	must(t, err)
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || strings.Count(string(body), `"signature"`) != 20 {
		t.Errorf("after it the answer isn't whole: %v", err)
	}
}
