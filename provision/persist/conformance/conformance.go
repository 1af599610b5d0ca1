// Package conformance is the suite that every provider of persist must pass. It knows providers by their contract only.
package conformance

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/persist"
)

// Machine is whose memory the suite keeps, Other another machine.
const (
	Machine persist.MachineID = "5HxS1tvZ4iqYFQYXkYVqLbyWWc4zRkYpwAnhZgzv7vKt"
	Other   persist.MachineID = "9aBcD1tvZ4iqYFQYXkYVqLbyWWc4zRkYpwAnhZgzv7vKt"
)

// World is what a provider's test gives to the suite.
type World struct {
	// Open makes the provider anew, on the same instances: the first time, all are empty. There are at least two.
	Open func(t *testing.T) persist.Provider
	// Break makes an instance unreachable while the provider uses it, and Mend makes it reachable again, as it was.
	Break, Mend func(t *testing.T, instance string)
	// Slow makes each change of an instance take that long, by the provider's clock.
	Slow func(t *testing.T, instance string, took time.Duration)
}

// Run runs the suite. Each test has a world of its own.
func Run(t *testing.T, open func(t *testing.T) World) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, w World)
	}{
		{"put, get, replace", replace},
		{"twice", twice},
		{"remove what isn't there", removeMissing},
		{"other machine", otherMachine},
		{"not brought up", notBroughtUp},
		{"down in the middle", down},
		{"after a restart", restart},
		{"unknown instance", unknown},
		{"names", names},
		{"bad names", badNames},
		{"bodies", bodies},
		{"kinds are apart", kinds},
		{"2,000 objects", many},
		{"latency", latency},
		{"from many goroutines", goroutines},
		{"a caller gives up", givenUp},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

// up opens the provider, and brings up its instances; the first is tested.
func up(t *testing.T, w World) (persist.Provider, string) {
	t.Helper()
	p := w.Open(t)
	if err := p.Initialize(t.Context(), Machine); err != nil {
		t.Fatal(err)
	}
	return p, p.Instances()[0]
}

func put(t *testing.T, p persist.Provider, at, name, body string) persist.Key {
	t.Helper()
	key, err := p.PutObject(t.Context(), at, persist.Object{Kind: "note", Name: name, Body: []byte(body)})
	if err != nil {
		t.Fatalf("put %.40q: %v", name, err)
	}
	return key
}

func want(t *testing.T, p persist.Provider, at, name, body string) {
	t.Helper()
	o, err := p.GetObject(t.Context(), at, "note", persist.KeyOf(name))
	if err != nil || o.Kind != "note" || o.Name != name || string(o.Body) != body {
		t.Errorf("get %.40q: %s %.40q with %d bytes, %v; want %d bytes", name, o.Kind, o.Name, len(o.Body), err, len(body))
	}
}

func wantNone(t *testing.T, p persist.Provider, at, name string) {
	t.Helper()
	if o, err := p.GetObject(t.Context(), at, "note", persist.KeyOf(name)); node.KindOf(err) != node.NotExist {
		t.Errorf("get %.40q: %+v, %v; want NotExist", name, o, err)
	}
}

// all are the names and bodies of a kind.
func all(t *testing.T, p persist.Provider, at string, kind persist.Kind) map[string]string {
	t.Helper()
	out := map[string]string{}
	for o, err := range p.GetAllObjects(t.Context(), at, kind) {
		if err != nil {
			t.Fatalf("%q: %v", o.Name, err)
		}
		if _, twice := out[o.Name]; twice || o.Kind != kind {
			t.Errorf("%s %q is given twice, or isn't a %s", o.Kind, o.Name, kind)
		}
		out[o.Name] = string(o.Body)
	}
	return out
}

func wantKind(t *testing.T, what string, err error, kind node.Kind) {
	t.Helper()
	if node.KindOf(err) != kind {
		t.Errorf("%s: %v (%s), want %s", what, err, node.KindOf(err), kind)
	}
}

func replace(t *testing.T, w World) {
	p, at := up(t, w)
	for _, body := range []string{"one", "two, which is longer", "", "3"} {
		if key := put(t, p, at, "a", body); key != persist.KeyOf("a") {
			t.Errorf("the key is %q", key)
		}
		want(t, p, at, "a", body)
	}
	if s := p.InstanceStatus(at); !s.InstanceExists || !s.Status {
		t.Errorf("%+v", s)
	}
}

func twice(t *testing.T, w World) {
	p, at := up(t, w)
	for range 2 {
		put(t, p, at, "a", "text")
		if err := p.Initialize(t.Context(), Machine); err != nil {
			t.Error(err)
		}
		want(t, p, at, "a", "text")
	}
	if got := all(t, p, at, "note"); len(got) != 1 {
		t.Errorf("%v", got)
	}
	if names := p.Instances(); len(names) < 2 || len(slices.Compact(slices.Sorted(slices.Values(names)))) != len(names) {
		t.Errorf("the instances are %q: the suite needs two or more, each once", names)
	}
	wantNone(t, p, p.Instances()[1], "a")
}

func removeMissing(t *testing.T, w World) {
	p, at := up(t, w)
	put(t, p, at, "a", "1")
	for range 2 {
		for _, name := range []string{"a", "never was", "never-was"} {
			if err := p.DeleteObject(t.Context(), at, "note", persist.KeyOf(name)); err != nil {
				t.Errorf("delete %q: %v", name, err)
			}
		}
		wantNone(t, p, at, "a")
		wantNone(t, p, at, "never was")
	}
	if err := p.DeleteObject(t.Context(), at, "never", "a"); err != nil {
		t.Error(err)
	}
	if keys, err := p.Keys(t.Context(), at, "never"); err != nil || len(keys) != 0 {
		t.Errorf("%v, %v", keys, err)
	}
	if got := all(t, p, at, "never"); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

func otherMachine(t *testing.T, w World) {
	p, at := up(t, w)
	put(t, p, at, "a", "mine")
	wantKind(t, "the same provider", p.Initialize(t.Context(), Other), node.Refused)
	want(t, p, at, "a", "mine")
	other := w.Open(t)
	wantKind(t, "another provider", other.Initialize(t.Context(), Other), node.Refused)
	if s := other.InstanceStatus(at); !s.InstanceExists || s.Status {
		t.Errorf("%+v", s)
	}
	_, err := other.PutObject(t.Context(), at, persist.Object{Kind: "note", Name: "a", Body: []byte("not mine")})
	wantKind(t, "put", err, node.Transient)
	_, err = other.GetObject(t.Context(), at, "note", "a")
	wantKind(t, "get", err, node.Transient)
	want(t, p, at, "a", "mine")
	wantKind(t, "no machine", w.Open(t).Initialize(t.Context(), ""), node.Invalid)
	if err := other.Initialize(t.Context(), Machine); err != nil {
		t.Errorf("the right machine after the wrong one: %v", err)
	}
	want(t, other, at, "a", "mine")
}

func notBroughtUp(t *testing.T, w World) {
	p := w.Open(t)
	at := p.Instances()[0]
	if s := p.InstanceStatus(at); !s.InstanceExists || s.Status || s.MeanPersistLatency != 0 {
		t.Errorf("%+v", s)
	}
	_, err := p.PutObject(t.Context(), at, persist.Object{Kind: "note", Name: "a"})
	wantKind(t, "put", err, node.Transient)
	_, err = p.Keys(t.Context(), at, "note")
	wantKind(t, "keys", err, node.Transient)
}

// down asserts that an instance that goes takes no other with it, and is as it was when it comes back.
func down(t *testing.T, w World) {
	p, at := up(t, w)
	other := p.Instances()[1]
	put(t, p, at, "a", "1")
	w.Break(t, at)
	_, err := p.PutObject(t.Context(), at, persist.Object{Kind: "note", Name: "b", Body: []byte("2")})
	wantKind(t, "put", err, node.Transient)
	_, err = p.GetObject(t.Context(), at, "note", "a")
	wantKind(t, "get", err, node.Transient)
	_, err = p.Keys(t.Context(), at, "note")
	wantKind(t, "keys", err, node.Transient)
	wantKind(t, "delete", p.DeleteObject(t.Context(), at, "note", "a"), node.Transient)
	for _, err := range p.GetAllObjects(t.Context(), at, "note") {
		wantKind(t, "all", err, node.Transient)
	}
	if s := p.InstanceStatus(at); !s.InstanceExists || s.Status {
		t.Errorf("%+v", s)
	}
	wantKind(t, "initialize", p.Initialize(t.Context(), Machine), node.Transient)
	put(t, p, other, "a", "elsewhere")
	want(t, p, other, "a", "elsewhere")

	again := w.Open(t)
	wantKind(t, "a restart", again.Initialize(t.Context(), Machine), node.Transient)
	want(t, again, other, "a", "elsewhere")

	w.Mend(t, at)
	for _, p := range []persist.Provider{p, again} {
		if err := p.Initialize(t.Context(), Machine); err != nil {
			t.Fatal(err)
		}
		want(t, p, at, "a", "1")
		if s := p.InstanceStatus(at); !s.Status {
			t.Errorf("%+v", s)
		}
		put(t, p, at, "b", "2")
		want(t, p, at, "b", "2")
	}
}

func restart(t *testing.T, w World) {
	p, at := up(t, w)
	names := p.Instances()
	put(t, p, at, "a", "1")
	put(t, p, at, "gone", "2")
	if err := p.DeleteObject(t.Context(), at, "note", "gone"); err != nil {
		t.Fatal(err)
	}
	p, _ = up(t, w)
	if again := p.Instances(); !slices.Equal(again, names) {
		t.Errorf("the instances were %q, and are %q", names, again)
	}
	want(t, p, at, "a", "1")
	wantNone(t, p, at, "gone")
	if keys, err := p.Keys(t.Context(), at, "note"); err != nil || !slices.Equal(keys, []persist.Key{"a"}) {
		t.Errorf("%v, %v", keys, err)
	}
}

func unknown(t *testing.T, w World) {
	p, _ := up(t, w)
	if s := p.InstanceStatus("none-00"); s != (persist.Status{}) {
		t.Errorf("%+v", s)
	}
	_, err := p.PutObject(t.Context(), "none-00", persist.Object{Kind: "note", Name: "a"})
	wantKind(t, "put", err, node.Invalid)
	_, err = p.GetObject(t.Context(), "none-00", "note", "a")
	wantKind(t, "get", err, node.Invalid)
	_, err = p.Keys(t.Context(), "", "note")
	wantKind(t, "keys", err, node.Invalid)
	wantKind(t, "delete", p.DeleteObject(t.Context(), "none-00", "note", "a"), node.Invalid)
	for _, err := range p.GetAllObjects(t.Context(), "none-00", "note") {
		wantKind(t, "all", err, node.Invalid)
	}
}

// hostile are names that would leave their place, or collide, if they were paths.
func hostile() []string {
	return []string{
		"a", "A", "a/b", "a/../b", "..", ".", "/", "/etc/passwd", "../../machine", "machine", ".tmp-a", "_a", "a b", "a\nb", "a\x00b", "a%2fb", "a?b#c&d",
		"ä", "a\u0308", "日本", "\u202e", "con", "-", "--rf", "*", `"<>|\`, "~", " ", strings.Repeat("x", 128), strings.Repeat("x", 129), strings.Repeat("/", 200),
		strings.Repeat("ü", persist.MaxName/2),
	}
}

func names(t *testing.T, w World) {
	p, at := up(t, w)
	wanted := map[string]string{}
	for i, name := range hostile() {
		wanted[name] = fmt.Sprint(i)
		put(t, p, at, name, fmt.Sprint(i))
	}
	for name, body := range wanted {
		want(t, p, at, name, body)
	}
	got := all(t, p, at, "note")
	for name, body := range wanted {
		if got[name] != body {
			t.Errorf("among all, %.40q has %q, want %q", name, got[name], body)
		}
	}
	if len(got) != len(wanted) {
		t.Errorf("there are %d objects, want %d", len(got), len(wanted))
	}
	for name := range wanted {
		if err := p.DeleteObject(t.Context(), at, "note", persist.KeyOf(name)); err != nil {
			t.Errorf("delete %.40q: %v", name, err)
		}
	}
	if got := all(t, p, at, "note"); len(got) != 0 {
		t.Errorf("%d objects are left", len(got))
	}
	if err := w.Open(t).Initialize(t.Context(), Machine); err != nil {
		t.Errorf("the names have hurt the instance: %v", err)
	}
}

func badNames(t *testing.T, w World) {
	p, at := up(t, w)
	for _, o := range []persist.Object{
		{Kind: "note"}, {Kind: "note", Name: strings.Repeat("x", persist.MaxName+1)}, {Kind: "note", Name: "a\xff"}, {Name: "a"}, {Kind: "../x", Name: "a"}, {Kind: "Note", Name: "a"},
		{Kind: persist.Kind(strings.Repeat("x", persist.MaxKind+1)), Name: "a"}, {Kind: "1", Name: "a"}, {Kind: "a/b", Name: "a"},
	} {
		_, err := p.PutObject(t.Context(), at, o)
		wantKind(t, fmt.Sprintf("put %.40q %.40q", o.Kind, o.Name), err, node.Invalid)
	}
	for _, key := range []persist.Key{"", "../machine", "..", "a/b", "_0", "A", ".tmp-a", persist.Key(strings.Repeat("x", 129))} {
		_, err := p.GetObject(t.Context(), at, "note", key)
		wantKind(t, fmt.Sprintf("get %q", key), err, node.Invalid)
		wantKind(t, fmt.Sprintf("delete %q", key), p.DeleteObject(t.Context(), at, "note", key), node.Invalid)
	}
	_, err := p.Keys(t.Context(), at, "..")
	wantKind(t, "keys", err, node.Invalid)
}

// bodies asserts that the largest body comes back, and a larger one is refused.
func bodies(t *testing.T, w World) {
	p, at := up(t, w)
	big := make([]byte, persist.MaxBody)
	for i := range big {
		big[i] = byte(i * i >> 7)
	}
	put(t, p, at, "empty", "")
	put(t, p, at, "big", string(big))
	want(t, p, at, "empty", "")
	want(t, p, at, "big", string(big))
	_, err := p.PutObject(t.Context(), at, persist.Object{Kind: "note", Name: "big", Body: append(big, 0)})
	wantKind(t, "a body beyond the limit", err, node.Invalid)
	want(t, p, at, "big", string(big))
	if s := p.InstanceStatus(at); !s.Status {
		t.Errorf("%+v", s)
	}
}

func kinds(t *testing.T, w World) {
	p, at := up(t, w)
	put(t, p, at, "a", "a note")
	for _, kind := range []persist.Kind{"notes", "no", "note-2", "machine"} {
		if _, err := p.PutObject(t.Context(), at, persist.Object{Kind: kind, Name: "a", Body: []byte(kind)}); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
	}
	want(t, p, at, "a", "a note")
	if got := all(t, p, at, "note"); len(got) != 1 || got["a"] != "a note" {
		t.Errorf("%v", got)
	}
	if err := p.DeleteObject(t.Context(), at, "notes", "a"); err != nil {
		t.Fatal(err)
	}
	want(t, p, at, "a", "a note")
}

func many(t *testing.T, w World) {
	p, at := up(t, w)
	const count = 2000
	var wait sync.WaitGroup
	for part := range 8 {
		wait.Go(func() {
			for i := part; i < count; i += 8 {
				if _, err := p.PutObject(t.Context(), at, persist.Object{Kind: "note", Name: fmt.Sprint(i), Body: []byte(fmt.Sprint("body ", i))}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
	keys, err := p.Keys(t.Context(), at, "note")
	if err != nil || len(keys) != count || !slices.IsSorted(keys) {
		t.Fatalf("%d keys, %v; want %d in order", len(keys), err, count)
	}
	got := all(t, p, at, "note")
	for i := range count {
		if got[fmt.Sprint(i)] != fmt.Sprint("body ", i) {
			t.Fatalf("object %d has %q", i, got[fmt.Sprint(i)])
		}
	}
	seen := 0
	for _, err := range p.GetAllObjects(t.Context(), at, "note") {
		if err != nil {
			t.Fatal(err)
		}
		if seen++; seen == 10 {
			break // who has seen enough gets no more
		}
	}
}

// latency asserts that the mean is within 20 % of what changes take.
func latency(t *testing.T, w World) {
	p, at := up(t, w)
	if s := p.InstanceStatus(at); s.MeanPersistLatency != 0 {
		t.Errorf("before the first change: %+v", s)
	}
	for _, took := range []time.Duration{40 * time.Millisecond, 2 * time.Second} {
		w.Slow(t, at, took)
		for i := range 64 {
			name := fmt.Sprint("n", i%4)
			if i%2 == 0 {
				put(t, p, at, name, "x")
			} else if err := p.DeleteObject(t.Context(), at, "note", persist.KeyOf(name)); err != nil {
				t.Fatal(err)
			}
		}
		if got := p.InstanceStatus(at).MeanPersistLatency; math.Abs(got-took.Seconds()) > 0.2*took.Seconds() {
			t.Errorf("each change took %s, and the mean is %g s", took, got)
		}
	}
	if s := p.InstanceStatus(p.Instances()[1]); s.MeanPersistLatency != 0 {
		t.Errorf("the other instance, without a change: %+v", s)
	}
}

func goroutines(t *testing.T, w World) {
	p, at := up(t, w)
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			name := fmt.Sprint("n", i%4)
			for j := range 15 {
				o := persist.Object{Kind: "note", Name: name, Body: bytes.Repeat([]byte{byte('a' + i)}, 100+j)}
				if _, err := p.PutObject(t.Context(), at, o); err != nil {
					t.Error(err)
				}
				got, err := p.GetObject(t.Context(), at, "note", persist.KeyOf(name))
				if err != nil || len(got.Body) < 100 || len(slices.Compact(got.Body)) != 1 {
					t.Errorf("%s holds a mixture: %v", name, err)
				}
			}
		})
	}
	wait.Wait()
}

// givenUp asserts that a caller who has given up changes nothing of the instance's standing.
func givenUp(t *testing.T, w World) {
	p, at := up(t, w)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.PutObject(gone, at, persist.Object{Kind: "note", Name: "a"}); err == nil {
		t.Log("it was put all the same")
	}
	put(t, p, at, "b", "1")
	want(t, p, at, "b", "1")
	if s := p.InstanceStatus(at); !s.Status {
		t.Errorf("%+v", s)
	}
}
