package persist_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/persist"
)

// Names and keys: short plain names are their own keys, and no two names share one.
func TestKeys(t *testing.T) {
	for name, want := range map[string]persist.Key{
		"17-1": "17-1", "a.b-c": "a.b-c", strings.Repeat("x", 128): persist.Key(strings.Repeat("x", 128)),
		"A": "_559aead08264d5795d3909718cdd05abd49572e84fe55590eef31a88a08fdffd",
	} {
		if got := persist.KeyOf(name); got != want {
			t.Errorf("the key of %.20q is %q, want %q", name, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		one, other := rapid.String().Draw(t, "one"), rapid.String().Draw(t, "other")
		if a, b := persist.KeyOf(one), persist.KeyOf(other); !a.Valid() || (one == other) != (a == b) || len(a) > 200 {
			t.Fatalf("%q is %q, %q is %q", one, a, other, b)
		}
	})
}

// What is framed comes back, and no changed byte goes unseen.
func TestFrames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := persist.Object{Kind: "note", Name: rapid.StringN(1, 100, persist.MaxName).Draw(t, "name"), Body: rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "body")}
		framed, err := persist.Frame("me", o)
		if err != nil {
			t.Fatal(err)
		}
		got, err := persist.Unframe("me", o.Kind, persist.KeyOf(o.Name), framed)
		if err != nil || got.Name != o.Name || !bytes.Equal(got.Body, o.Body) {
			t.Fatalf("%+v, %v", got, err)
		}
		if cut := rapid.IntRange(0, len(framed)-1).Draw(t, "cut"); true {
			_, err = persist.Unframe("me", o.Kind, persist.KeyOf(o.Name), framed[:cut])
			if node.KindOf(err) != node.Invalid {
				t.Fatalf("cut at %d of %d: %v", cut, len(framed), err)
			}
		}
		at, bit := rapid.IntRange(0, len(framed)-1).Draw(t, "at"), byte(1)<<rapid.IntRange(0, 7).Draw(t, "bit")
		framed[at] ^= bit
		if again, err := persist.Unframe("me", o.Kind, persist.KeyOf(o.Name), framed); err == nil && (again.Name != o.Name || !bytes.Equal(again.Body, o.Body)) {
			t.Fatalf("a changed byte %d became %+v", at, again)
		}
	})
}

// An object of another machine, kind or name isn't the one that was asked for.
func TestOtherObjects(t *testing.T) {
	framed, err := persist.Frame("me", persist.Object{Kind: "note", Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		machine persist.MachineID
		kind    persist.Kind
		key     persist.Key
	}{{"you", "note", "a"}, {"me", "other", "a"}, {"me", "note", "b"}} {
		if _, err := persist.Unframe(c.machine, c.kind, c.key, framed); node.KindOf(err) != node.Invalid {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func FuzzUnframe(f *testing.F) {
	framed, err := persist.Frame("me", persist.Object{Kind: "note", Name: "a", Body: []byte("text")})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(framed)
	f.Add([]byte("croft-object 1 {}\n"))
	f.Fuzz(func(t *testing.T, framed []byte) {
		if o, err := persist.Unframe("me", "note", "a", framed); err == nil && (o.Name != "a" || o.Check() != nil) {
			t.Errorf("%q became %+v", framed, o)
		}
	})
}

// The status is written as the seed has it.
func TestStatusIsWrittenAsTheSeedHasIt(t *testing.T) {
	s := persist.Status{InstanceExists: true, Status: true, MeanPersistLatency: 0.25}
	text, err := json.Marshal(s)
	if err != nil || string(text) != `{"exists":true,"status":true,"mean_persist_latency":0.25}` {
		t.Errorf("%s, %v", text, err)
	}
	text, err = yaml.Marshal(s)
	if err != nil || string(text) != "exists: true\nstatus: true\nmeanPersistLatency: 0.25\n" {
		t.Errorf("%s, %v", text, err)
	}
	if text, err := json.Marshal(persist.Status{}); err != nil || string(text) != `{"exists":false}` {
		t.Errorf("%s, %v", text, err)
	}
}

func TestInstanceNames(t *testing.T) {
	type settings struct{ A, B string }
	name := func(s settings) string {
		t.Helper()
		n, err := persist.InstanceName("fs", s)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if a, b := name(settings{"1", "2"}), name(settings{"1", "2"}); a != b || a != "fs-75b7a4d79e2fdbe1" && len(a) != len("fs-")+16 {
		t.Errorf("%s, %s", a, b)
	}
	if name(settings{"1", "2"}) == name(settings{"12", ""}) {
		t.Error("different settings have one name")
	}
	if _, err := persist.InstanceName("fs", func() {}); node.KindOf(err) != node.Invalid {
		t.Errorf("%v", err)
	}
}

// The mean is that of the latest changes alone.
func TestLatency(t *testing.T) {
	var l persist.Latency
	if l.Mean() != 0 {
		t.Error(l.Mean())
	}
	l.Observe(time.Second)
	l.Observe(3 * time.Second)
	if l.Mean() != 2 {
		t.Error(l.Mean())
	}
	for range 64 {
		l.Observe(time.Minute)
	}
	if l.Mean() != 60 {
		t.Error(l.Mean())
	}
}
