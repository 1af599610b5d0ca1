package dump_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"go.uber.org/goleak"
	"go.yaml.in/yaml/v3"

	"github.com/croft-edge/croft/cmd/croftd/internal/dump"
	"github.com/croft-edge/croft/internal/testing/statetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs a debug socket for the test.
func serve(t *testing.T, config dump.Config) *http.Client {
	t.Helper()
	config.Path = filepath.Join(t.TempDir(), "debug.sock")
	s, err := dump.Listen(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(config.Path); !os.IsNotExist(err) {
			t.Errorf("the socket is left behind: %v", err)
		}
	})
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", config.Path)
	}}}
}

// get reads a dump.
func get(t *testing.T, c *http.Client, path string) (text string, parsed map[string]any) {
	t.Helper()
	code, text := ask(t, c, path)
	if code != http.StatusOK {
		t.Fatalf("%s: %d %s", path, code, text)
	}
	if err := yaml.Unmarshal([]byte(text), &parsed); err != nil {
		t.Fatalf("%s isn't YAML: %v\n%s", path, err, text)
	}
	return text, parsed
}

func ask(t *testing.T, c *http.Client, path string) (code int, text string) {
	t.Helper()
	resp, err := c.Get("http://croftd" + path)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return resp.StatusCode, string(raw)
}

// value is a section that gives v.
func value(name string, v any) dump.Section {
	return dump.Section{Name: name, Read: func(context.Context) (any, error) { return v, nil }}
}

func TestADumpHasAllSectionsInTheirOrder(t *testing.T) {
	c := serve(t, dump.Config{Sections: []dump.Section{
		value("queues", []struct {
			Name   string `json:"name"`
			Length int    `json:"length"`
		}{{"modules", 3}}),
		value("about", map[string]any{"version": "1", "user_text": "\x1b[31mred\nline: 2"}),
		value("late", 5*time.Second),
		value("empty", nil),
	}})
	text, parsed := get(t, c, "/dump")
	if !strings.HasPrefix(text, "queues:\n  - name: modules\n    length: 3\nabout:\n") || strings.Contains(text, "\x1b") {
		t.Errorf("got\n%.300s", text)
	}
	if got := parsed["about"].(map[string]any)["user_text"]; got != "\x1b[31mred\nline: 2" {
		t.Errorf("the text is %q", got)
	}
	if got, _ := parsed["goroutines"].(string); !strings.HasPrefix(got, "goroutine profile: total ") || !strings.Contains(got, "dump.") {
		t.Errorf("goroutines are %.200s", got)
	}
	if !strings.Contains(text, "goroutines: |-\n  goroutine profile") {
		t.Errorf("the goroutines aren't shown as a text of several lines: %.300s", text[strings.Index(text, "goroutines:"):])
	}
	one, _ := get(t, c, "/dump/queues")
	if one != "queues:\n  - name: modules\n    length: 3\n" {
		t.Errorf("one section is\n%s", one)
	}
	for _, path := range []string{"/dump/none", "/dump/..%2fetc", "/dump/%00"} {
		if text, _ := get(t, c, path); text != "{}\n" {
			t.Errorf("%s is %q", path, text)
		}
	}
	for _, path := range []string{"/", "/dumps", "/dump/a/b"} {
		if code, _ := ask(t, c, path); code != http.StatusNotFound {
			t.Errorf("%s: %d", path, code)
		}
	}
}

// TestBrokenSectionsAreLines: the others are whole.
func TestBrokenSectionsAreLines(t *testing.T) {
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	limits := dump.DefaultLimits()
	limits.Time, limits.Size = 5*time.Second, 100_000
	c := serve(t, dump.Config{Limits: limits, Sections: []dump.Section{
		{Name: "fails", Read: func(context.Context) (any, error) { return nil, errors.New("cannot reach it: gone") }},
		{Name: "panics", Read: func(context.Context) (any, error) { panic("defect") }},
		{Name: "hangs", Read: func(context.Context) (any, error) { <-hang; return nil, nil }},
		{Name: "slow", Read: func(ctx context.Context) (any, error) { <-ctx.Done(); return nil, ctx.Err() }},
		value("large", strings.Repeat("x", 200_000)),
		value("endless", endless{}),
		value("odd", make(chan int)),
		value("good", "here"),
	}})
	for range 2 {
		_, parsed := get(t, c, "/dump")
		for name, want := range map[string]string{
			"fails": "cannot read section fails: cannot reach it: gone", "panics": "cannot run section panics of a dump: panic: defect", "slow": "cannot read section slow",
			"large": "larger than 100000 bytes", "endless": "larger than 100000 bytes", "odd": "cannot show section odd", "hangs": "cannot read section hangs",
		} {
			section, _ := parsed[name].(map[string]any)
			if got, _ := section["error"].(string); !strings.Contains(got, want) || len(section) != 1 {
				t.Errorf("%s is %.200v", name, parsed[name])
			}
		}
		if parsed["good"] != "here" {
			t.Errorf("good is %v", parsed["good"])
		}
	}
	if _, parsed := get(t, c, "/dump/hangs"); !strings.Contains(fmt.Sprint(parsed["hangs"]), "an earlier reading hasn't returned") {
		t.Errorf("a section that hangs is read again: %v", parsed)
	}
}

// endless is a list that never ends, until its writer refuses more.
type endless struct{}

func (endless) MarshalJSON() ([]byte, error) {
	return []byte(`["` + strings.Repeat("y", 1<<20) + `"]`), nil
}

// TestOneDumpAtATime: the next ones wait, and no more than are allowed.
func TestOneDumpAtATime(t *testing.T) {
	var active, most, asked atomic.Int64
	release := make(chan struct{})
	limits := dump.DefaultLimits()
	limits.Waiting = 2
	c := serve(t, dump.Config{Limits: limits, Sections: []dump.Section{{Name: "held", Read: func(ctx context.Context) (any, error) {
		most.Store(max(most.Load(), active.Add(1)))
		defer active.Add(-1)
		select {
		case <-release:
		case <-ctx.Done():
		}
		return "ok", nil
	}}}})
	var all sync.WaitGroup
	var whole, refused atomic.Int64
	for range 6 {
		all.Go(func() {
			code, text := ask(t, c, "/dump/held")
			switch {
			case code == http.StatusOK && text == "held: ok\n":
				whole.Add(1)
			case code == http.StatusServiceUnavailable && strings.Contains(text, "cannot dump: 2 others wait"):
				if refused.Add(1) == 3 {
					close(release) // only now may the first one end
				}
			default:
				t.Errorf("%d %s", code, text)
			}
			asked.Add(1)
		})
	}
	all.Wait()
	if whole.Load() != 3 || refused.Load() != 3 || most.Load() != 1 {
		t.Errorf("%d dumps, %d refused, %d at a time", whole.Load(), refused.Load(), most.Load())
	}
}

func TestResources(t *testing.T) {
	st, err := statetest.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"1-1", "2-1"} {
		if err := st.Create(t.Context(), statetest.NewWorkload(id, statetest.WorkloadSpec{Kind: "volume"})); err != nil {
			t.Fatal(err)
		}
	}
	if err := st.Create(t.Context(), statetest.NewOrder("evict", statetest.OrderSpec{Action: "evict"})); err != nil {
		t.Fatal(err)
	}
	if err := st.Create(t.Context(), statetest.NewSecret("s", "hunter2")); err != nil {
		t.Fatal(err)
	}
	c := serve(t, dump.Config{Resources: dump.NewResources(st), Sections: []dump.Section{value("order", "a section's name comes before a type's")}})
	text, parsed := get(t, c, "/dump")
	if strings.Contains(text, "hunter2") {
		t.Error("a secret is dumped")
	}
	resources := parsed["resources"].(map[string]any)
	if node := resources["node"].(map[string]any); len(node) != 1 || len(node[statetest.WorkloadType].([]any)) != 2 {
		t.Errorf("node has %v", node)
	}
	if resources["meta"] == nil || resources["history"] != nil {
		t.Errorf("namespaces are %v", resources)
	}
	text, parsed = get(t, c, "/dump/workload")
	if len(parsed) != 1 || !strings.Contains(text, "id: 2-1") || strings.Contains(text, "evict") {
		t.Errorf("workloads are\n%s", text)
	}
	if text, _ = get(t, c, "/dump/order"); text != "order: a section's name comes before a type's\n" {
		t.Errorf("got %s", text)
	}
	for _, name := range []string{"workloadsecret", "WorkloadSecrets.croft", "wokload"} {
		if text, _ = get(t, c, "/dump/"+name); text != "{}\n" {
			t.Errorf("%s is %s", name, text)
		}
	}
}

func TestSectionsHaveNamesOfTheirOwn(t *testing.T) {
	for want, sections := range map[string][]dump.Section{
		"two of that name": {value("a", 1), value("a", 2)},
		`"goroutines"`:     {value("goroutines", 1)},
		"must be small":    {value("A b", 1)},
		`dump section ""`:  {value("", 1)},
	} {
		_, err := dump.Listen(t.Context(), dump.Config{Path: filepath.Join(t.TempDir(), "d.sock"), Sections: sections})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s, got %v", want, err)
		}
	}
}

// hanging is a state that answers no list before its end.
type hanging struct {
	state.CoreState
	end chan struct{}
}

func (h hanging) List(context.Context, resource.Kind, ...state.ListOption) (resource.List, error) {
	<-h.end
	return resource.List{}, errors.New("too late")
}

// TestAStateThatHangs costs one goroutine, and the other sections are whole.
func TestAStateThatHangs(t *testing.T) {
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	limits := dump.DefaultLimits()
	limits.Time = 3 * time.Second
	c := serve(t, dump.Config{Limits: limits, Resources: dump.NewResources(hanging{end: end}), Sections: []dump.Section{value("good", "here")}})
	if _, parsed := get(t, c, "/dump"); parsed["good"] != "here" || !strings.Contains(fmt.Sprint(parsed["resources"]), "cannot read section resources within 3s") {
		t.Errorf("got %v", parsed["resources"])
	}
	for _, want := range []string{"within 3s", "an earlier reading hasn't returned", "an earlier reading hasn't returned"} {
		if _, parsed := get(t, c, "/dump/workload"); !strings.Contains(fmt.Sprint(parsed["workload"]), want) {
			t.Errorf("want %s, got %v", want, parsed)
		}
	}
}
