package api

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/workload"
)

// exchange is a recorded request and its response.
type exchange struct {
	Method   string `json:"method"`
	Path     string `json:"path"`
	Body     string `json:"request_body"`
	Status   int    `json:"status"`
	Answer   string `json:"response_body"`
	Location string `json:"response_location"`
	before   []exchange
}

// vectors reads all recorded exchanges, each with the exchanges before it.
func vectors(t *testing.T) map[string]exchange {
	t.Helper()
	files, err := filepath.Glob("../testdata/reservations/*.json")
	must(t, err)
	out := map[string]exchange{}
	for _, path := range files {
		raw, err := os.ReadFile(path)
		must(t, err)
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		if strings.HasPrefix(name, "http_") {
			var all map[string]exchange
			must(t, json.Unmarshal(raw, &all))
			for key, x := range all {
				out[name+"/"+key] = x
			}
			continue
		}
		var one struct {
			Post   exchange  `json:"post"`
			Before *exchange `json:"get_before_result"`
			Result struct {
				Put *exchange `json:"put"`
			} `json:"result"`
			After *exchange `json:"get_after_result"`
		}
		must(t, json.Unmarshal(raw, &one))
		out[name+"/post"] = one.Post
		add := func(key string, x *exchange, before ...exchange) {
			if x != nil {
				x.before = before
				out[name+"/"+key] = *x
			}
		}
		add("get_before_result", one.Before, one.Post)
		add("put_result", one.Result.Put, one.Post)
		before := []exchange{one.Post}
		if one.Result.Put != nil {
			before = append(before, *one.Result.Put)
		}
		add("get_after_result", one.After, before...)
	}
	story(t, out)
	return out
}

// story adds the preceding exchanges to those vectors that depend on other
// vectors' files.
func story(t *testing.T, all map[string]exchange) {
	t.Helper()
	before := func(name string, names ...string) {
		x, ok := all[name]
		if !ok {
			t.Fatalf("there is no vector %s", name)
		}
		for _, n := range names {
			x.before = append(x.before, all[n])
		}
		all[name] = x
	}
	before("http_nodes/post_interfaces", "http_nodes/post_node")
	before("http_nodes/post_ports", "http_nodes/post_node")
	before("http_nodes/get_node", "http_nodes/post_node", "http_nodes/post_interfaces", "http_nodes/post_ports")
	lived := []string{"volume/post", "volume/put_result"}
	before("http_delete/delete", lived...)
	before("http_delete/get_after_delete", append(lived, "http_delete/delete")...)
	before("http_delete/put_deleted", append(lived, "http_delete/delete")...)
	before("http_delete/get_after_deleted", append(lived, "http_delete/delete", "http_delete/put_deleted")...)
	for _, n := range []string{"accepted_replay_of_same_body", "accepted_duration_changed_after_signing"} {
		before("http_negative/"+n, "volume/post")
	}
	pushes := []string{
		"debug/post", "volume/post", "volume_hdd/post", "network/post", "network_second_node/post", "container/post", "zdb/post",
		"zdb_nopassword/post", "kubernetes_master/post", "kubernetes_worker/post", "network_access/post",
		"http_negative/accepted_zdb_second_node_double_encrypted",
	}
	for _, n := range []string{"from_0_all_including_expired", "from_9_skips_expired", "node2_from_0", "from_beyond_last_waits_20s_then_empty_list"} {
		before("http_poll/"+n, pushes...)
	}
	before("http_poll/from_beyond_last_but_a_reservation_is_to_delete", append(pushes, "http_delete/delete")...)
}

// compat is three explorers on one database, with the recorded clock: one without the
// flags, one with them (flagged), and one that allows all (open), for prepare.
type compat struct {
	*harness
	flagged, open *httptest.Server
}

const recorded = "2026-11-20T13:21:30Z"

func startCompat(t *testing.T) *compat {
	t.Helper()
	h := start(t, func(c *Config) { c.Policy.MaxWait = 100 * time.Millisecond })
	at, err := time.Parse(time.RFC3339, recorded)
	must(t, err)
	h.clock.set(at)
	more := func(change func(*Config)) *httptest.Server {
		c := Config{Store: h.store, Waiters: h.waiters, Policy: testPolicy(), Metrics: NewMetrics(), Log: zerolog.Nop(), Now: h.clock.now}
		c.Policy.AcceptSignatureV1, c.Policy.AcceptUnsignedNodeWrites = true, true
		change(&c)
		server, err := New(c)
		must(t, err)
		out := httptest.NewServer(server)
		t.Cleanup(out.Close)
		return out
	}
	return &compat{
		harness: h,
		flagged: more(func(c *Config) { c.Policy.MaxWait, c.Validate = 100*time.Millisecond, workload.Validate }),
		open:    more(func(c *Config) { c.Policy.MaxDuration = 100 * 365 * 24 * time.Hour }),
	}
}

// number sets the explorer's next number to the recorded one.
func (c *compat) number(location string) {
	c.t.Helper()
	if location == "" {
		return
	}
	id, err := workload.ParseID(strings.TrimPrefix(location, "/reservations/"))
	must(c.t, err)
	db, err := sql.Open("sqlite", "file:"+c.path+"?_pragma=busy_timeout(5000)")
	must(c.t, err)
	defer db.Close()
	_, err = db.Exec(`UPDATE meta SET value = ? WHERE key = 'next'`, int64(id.N))
	must(c.t, err)
}

// prepare replays the exchanges before x.
func (c *compat) prepare(x exchange) {
	c.t.Helper()
	for _, id := range []string{"5f4NTehmQGhwTDCtorQTFL58HfopFWDXDSR8BqRu6ddZ", "CY4wS9KZWSwxtGyJyZsGWQhK2TY1AxQTvJr64H2zQktP"} {
		if !strings.HasPrefix(x.Path, "/nodes") {
			c.replay(exchange{Method: "POST", Path: "/nodes", Body: `{"node_id":"` + id + `"}`, Status: 201})
		}
	}
	for _, b := range x.before {
		c.replay(b)
	}
}

func (c *compat) replay(x exchange) {
	c.t.Helper()
	c.number(x.Location)
	r, err := http.NewRequestWithContext(context.Background(), x.Method, c.open.URL+x.Path, bytes.NewReader([]byte(x.Body)))
	must(c.t, err)
	resp, err := http.DefaultClient.Do(r)
	must(c.t, err)
	_ = resp.Body.Close()
	if resp.StatusCode != x.Status {
		c.t.Fatalf("preparing %s %s answers %d, recorded is %d", x.Method, x.Path, resp.StatusCode, x.Status)
	}
}

// outcomes replays a vector without and with the flags, and returns the outcomes in
// the table's words. Both run on one database, so the first may change it only where
// the table says "same".
func outcomes(t *testing.T, x exchange) (plain, flags string) {
	t.Helper()
	c := startCompat(t)
	c.prepare(x)
	c.number(x.Location)
	var doc workload.Reservation
	if json.Unmarshal([]byte(x.Body), &doc) == nil && x.Method == "POST" && doc.Duration == time.Second {
		c.clock.set(doc.Created) // it lives for a second
	}
	plain = c.outcome(x)
	c.server, c.flagged = c.flagged, c.server
	flags = c.outcome(x)
	c.server, c.flagged = c.flagged, c.server
	return plain, flags
}

func (c *compat) outcome(x exchange) string {
	c.t.Helper()
	status, header, body := c.do(x.Method, x.Path, x.Body)
	switch {
	case status != x.Status && status >= 400:
		return fmt.Sprintf("refused %d", status)
	case status != x.Status:
		return fmt.Sprintf("answers %d", status)
	case status >= 400:
		return "same status"
	case header.Get("Location") != x.Location:
		return "another Location"
	case body == x.Answer:
		return "same"
	case more(x.Answer, body):
		return "same, more members"
	case fewer(x, body):
		return "same, without what isn't accepted"
	}
	c.t.Logf("recorded %s\ngot      %s", x.Answer, body)
	return "differs"
}

// more reports whether got has all of want's members. It ignores "created" and
// "updated", which the explorer sets itself.
func more(want, got string) bool {
	var w, g map[string]any
	if json.Unmarshal([]byte(want), &w) != nil || json.Unmarshal([]byte(got), &g) != nil {
		return false
	}
	for name, value := range w {
		if name != "created" && name != "updated" && !reflect.DeepEqual(g[name], value) {
			return false
		}
	}
	return true
}

// fewer reports whether got is the recorded list, in its order and byte for byte,
// without the reservations that weren't pushed before.
func fewer(x exchange, got string) bool {
	pushed := map[string]bool{}
	for _, b := range x.before {
		pushed[strings.TrimPrefix(b.Location, "/reservations/")] = true
	}
	var all []json.RawMessage
	if json.Unmarshal([]byte(x.Answer), &all) != nil {
		return false
	}
	var kept []string
	for _, one := range all {
		var doc workload.Reservation
		if json.Unmarshal(one, &doc) != nil {
			return false
		}
		if pushed[doc.ID] {
			kept = append(kept, string(one))
		}
	}
	return len(kept) > 0 && got == "["+strings.Join(kept, ",")+"]\n"
}

// row is one line of the table in docs/explorer-compat.md.
type row struct{ vector, plain, flags, why string }

func table(t *testing.T) []row {
	t.Helper()
	raw, err := os.ReadFile("../../docs/explorer-compat.md")
	must(t, err)
	var out []row
	for _, line := range strings.Split(string(raw), "\n") {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|"), "|")
		if len(cells) != 4 {
			t.Fatalf("this line has %d cells, want 4: %s", len(cells), line)
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		out = append(out, row{strings.Trim(cells[0], "`"), cells[1], cells[2], cells[3]})
	}
	return out
}

// The table has croft's answer to each recorded exchange of the seed's explorer,
// without and with the flags for the seed's clients.
func TestCompatibilityTable(t *testing.T) {
	all := vectors(t)
	if len(all) < 60 {
		t.Fatalf("found only %d vectors", len(all))
	}
	rows := table(t)
	said := map[string]bool{}
	for _, r := range rows {
		x, ok := all[r.vector]
		if !ok {
			t.Errorf("the table has %s, and there is no such vector", r.vector)
			continue
		}
		said[r.vector] = true
		t.Run(r.vector, func(t *testing.T) {
			plain, flags := outcomes(t, x)
			if plain != r.plain {
				t.Errorf("without flags: %s, the table says %s", plain, r.plain)
			}
			if flags != r.flags {
				t.Errorf("with the flags: %s, the table says %s", flags, r.flags)
			}
			alike := func(cell string) bool { return cell == "same" || cell == "same status" }
			if (!alike(r.plain) || !alike(r.flags)) && r.why == "" {
				t.Error("the table doesn't say why it isn't the same")
			}
		})
	}
	var missing []string
	for name := range all {
		if !said[name] {
			missing = append(missing, name)
		}
	}
	sort.Strings(missing)
	for _, name := range missing {
		plain, flags := outcomes(t, all[name])
		t.Errorf("missing in the table: | `%s` | %s | %s | recorded %d |", name, plain, flags, all[name].Status)
	}
}
