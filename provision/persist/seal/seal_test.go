package seal_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/provision/persist"
	"github.com/croft-edge/croft/provision/persist/seal"
)

func key(t testing.TB) sign.KeyPair {
	t.Helper()
	k, err := sign.Generate()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func vault(t testing.TB, machine string) *seal.Vault {
	t.Helper()
	v, err := seal.New(persist.MachineID(machine))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// What is sealed comes back, and shows nothing of its name and body outside.
func TestSealed(t *testing.T) {
	v := vault(t, "me")
	rapid.Check(t, func(t *rapid.T) {
		i := seal.Item{
			Kind: "file", Name: rapid.StringN(1, 60, persist.MaxName).Draw(t, "name"), Body: rapid.SliceOfN(rapid.Byte(), 0, 2000).Draw(t, "body"),
			Version: rapid.Uint64().Draw(t, "number"),
		}
		o, err := v.Seal(i)
		if err != nil {
			t.Fatal(err)
		}
		if len(i.Name) > 8 && bytes.Contains(o.Body, []byte(i.Name)) || len(i.Body) > 8 && bytes.Contains(o.Body, i.Body) || persist.KeyOf(o.Name) != persist.Key(o.Name) {
			t.Fatalf("it shows outside: %q %q", o.Name, o.Body)
		}
		got, err := v.Open(o)
		if err != nil || got.Name != i.Name || !bytes.Equal(got.Body, i.Body) || got.Version != i.Version || got.Kind != i.Kind {
			t.Fatalf("%+v, %v", got, err)
		}
		bad := persist.Object{Kind: o.Kind, Name: o.Name, Body: bytes.Clone(o.Body)}
		bad.Body[rapid.IntRange(0, len(o.Body)-1).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if _, err := v.Open(bad); node.KindOf(err) != node.Invalid {
			t.Fatalf("a changed one: %v", err)
		}
		bad.Body = o.Body[:rapid.IntRange(0, len(o.Body)-1).Draw(t, "cut")]
		if _, err := v.Open(bad); node.KindOf(err) != node.Invalid {
			t.Fatalf("a cut one: %v", err)
		}
	})
}

// An object is nothing in another's place: of another name, kind, machine or data key.
func TestSwapped(t *testing.T) {
	v := vault(t, "me")
	seals := func(v *seal.Vault, kind persist.Kind, name string) persist.Object {
		o, err := v.Seal(seal.Item{Kind: kind, Name: name, Body: []byte("text")})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	a, b, k := seals(v, "file", "a"), seals(v, "file", "b"), seals(v, "list", "a")
	for what, o := range map[string]persist.Object{
		"another name":     {Kind: a.Kind, Name: a.Name, Body: b.Body},
		"another kind":     {Kind: a.Kind, Name: a.Name, Body: k.Body},
		"told of as a":     {Kind: "list", Name: a.Name, Body: a.Body},
		"another data key": seals(vault(t, "me"), "file", "a"),
		"another machine":  seals(vault(t, "you"), "file", "a"),
		"nothing":          {Kind: a.Kind, Name: a.Name},
	} {
		if _, err := v.Open(o); node.KindOf(err) != node.Invalid {
			t.Errorf("%s: %v", what, err)
		}
	}
	if again := seals(v, "file", "a"); bytes.Equal(again.Body, a.Body) || again.Name != a.Name {
		t.Error("the same text is sealed the same way twice, or gets another name")
	}
	if vault(t, "me").Hidden("file", "a") == v.Hidden("file", "a") {
		t.Error("two data keys hide a name in the same way")
	}
}

// Bodies have a bound, before they are sealed and after they are opened.
func TestBounds(t *testing.T) {
	v := vault(t, "me")
	noise := make([]byte, seal.MaxBody)
	if _, err := rand.Read(noise); err != nil {
		t.Fatal(err)
	}
	for what, body := range map[string][]byte{"what doesn't compress": noise, "what does": make([]byte, seal.MaxBody), "nothing": {}} {
		o, err := v.Seal(seal.Item{Kind: "file", Name: strings.Repeat("n", persist.MaxName), Body: body})
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got, err := v.Open(o); err != nil || !bytes.Equal(got.Body, body) {
			t.Errorf("%s: %d bytes, %v", what, len(got.Body), err)
		}
	}
	if _, err := v.Seal(seal.Item{Kind: "file", Name: "a", Body: make([]byte, seal.MaxBody+1)}); node.KindOf(err) != node.Invalid {
		t.Errorf("%v", err)
	}
}

// Who has the data key can make an object that unpacks to more than any may have: it is refused before that.
func TestBomb(t *testing.T) {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	bomb := w.EncodeAll(make([]byte, persist.MaxBody+1), nil)
	var framed bytes.Buffer
	stream, err := zstd.NewWriter(&framed)
	if err != nil {
		t.Fatal(err)
	}
	for range 40 {
		if _, err := stream.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.Close(); err != nil {
		t.Fatal(err)
	}
	for _, packed := range [][]byte{bomb, framed.Bytes()} {
		if plain, err := seal.Unpack(packed); err == nil {
			t.Errorf("%d bytes became %d", len(packed), len(plain))
		}
	}
}

// The data key comes back by the node's key and by the recovery key, and by no other.
func TestKeyDocument(t *testing.T) {
	own, recovery, other := key(t), key(t), key(t)
	me := persist.MachineID(own.ID())
	v := vault(t, own.ID())
	o, err := v.Seal(seal.Item{Kind: "file", Name: "a", Body: []byte("text")})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := v.Wrap(own, recovery.ID())
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(doc, own.Seed()) {
		t.Fatal("the seed is in the document")
	}
	for what, k := range map[string]sign.KeyPair{"the node's": own, "the recovery key": recovery} {
		got, err := seal.Unwrap(doc, me, k)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got.RecoveryKey != recovery.ID() || got.Node.ID() != own.ID() || got.Vault.Machine() != me {
			t.Errorf("%s: %+v", what, got)
		}
		if i, err := got.Vault.Open(o); err != nil || string(i.Body) != "text" {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := seal.Unwrap(doc, me, other); node.KindOf(err) != node.Refused {
		t.Errorf("another key: %v", err)
	}
	if _, err := seal.Unwrap(doc, persist.MachineID(other.ID()), other); node.KindOf(err) != node.Invalid {
		t.Errorf("another machine: %v", err)
	}
	none, err := v.Wrap(own, "")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := seal.Unwrap(none, me, own); err != nil || got.RecoveryKey != "" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := seal.Unwrap(none, me, recovery); node.KindOf(err) != node.Refused {
		t.Errorf("%v", err)
	}
	if _, err := v.Wrap(other, ""); node.KindOf(err) != node.Invalid {
		t.Errorf("wrapped by another node: %v", err)
	}
	for _, id := range []string{"x", strings.Repeat("1", 32), own.ID() + "1"} {
		if _, err := v.Wrap(own, id); node.KindOf(err) != node.Invalid {
			t.Errorf("recovery key %q: %v", id, err)
		}
	}
}

// Whoever keeps the document can neither name a data key, nor add a box, nor take one away, nor serve an older document's parts.
func TestForgedKeyDocuments(t *testing.T) {
	own, recovery, thief := key(t), key(t), key(t)
	me := persist.MachineID(own.ID())
	doc, err := vault(t, own.ID()).Wrap(own, recovery.ID())
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := vault(t, thief.ID()).Wrap(thief, thief.ID())
	if err != nil {
		t.Fatal(err)
	}
	box, err := sign.Seal(own.ID(), bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	var sound, stolen map[string]any
	for text, into := range map[string]*map[string]any{string(doc): &sound, string(theirs): &stolen} {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	for what, change := range map[string]func(d map[string]any){
		"another data key":     func(d map[string]any) { d["node"] = box },
		"another recovery key": func(d map[string]any) { d["recovery_key"] = thief.ID() },
		"another box":          func(d map[string]any) { d["recovery"] = stolen["recovery"] },
		"no recovery key":      func(d map[string]any) { delete(d, "recovery_key"); delete(d, "recovery") },
		"no signature":         func(d map[string]any) { delete(d, "signature") },
		"another's signature":  func(d map[string]any) { d["signature"] = stolen["signature"] },
		"another machine":      func(d map[string]any) { d["machine"] = thief.ID() },
	} {
		d := map[string]any{}
		for k, v := range sound {
			d[k] = v
		}
		change(d)
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range []sign.KeyPair{own, recovery, thief} {
			if _, err := seal.Unwrap(text, me, k); node.KindOf(err) != node.Invalid {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	for _, text := range []string{"", "{}", "null", "[]", string(doc[:len(doc)-2])} {
		if _, err := seal.Unwrap([]byte(text), me, own); node.KindOf(err) != node.Invalid {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

func FuzzOpen(f *testing.F) {
	v := vault(f, "me")
	o, err := v.Seal(seal.Item{Kind: "file", Name: "a", Body: []byte("text")})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(o.Body)
	f.Fuzz(func(t *testing.T, body []byte) {
		if i, err := v.Open(persist.Object{Kind: "file", Name: o.Name, Body: body}); err == nil && (i.Name != "a" || string(i.Body) != "text") {
			t.Errorf("%q became %+v", body, i)
		}
	})
}
