package stateview_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/protobuf"
	"github.com/cosi-project/runtime/pkg/resource/typed"
	"pgregory.net/rapid"

	"github.com/croft-edge/croft/internal/testing/statetest"
	"github.com/croft-edge/croft/pkg/stateview"
	"github.com/croft-edge/croft/pkg/yamljson"
)

// everything has each kind of member that JSON knows.
type everything struct {
	inline `yaml:",inline"`

	Text    string    `yaml:"text"`
	Maybe   string    `yaml:"maybe,omitempty"`
	Yes     bool      `yaml:"yes"`
	MaybeNo bool      `yaml:"maybe_no,omitempty"`
	Int     int64     `yaml:"int"`
	Uint    uint64    `yaml:"uint,omitempty"`
	At      time.Time `yaml:"at"`
	Until   time.Time `yaml:"until,omitempty"`
	Texts   []string  `yaml:"texts"`
	More    []inline  `yaml:"more,omitempty"`
	Part    *inline   `yaml:"part"`
	Rest    *inline   `yaml:"rest,omitempty"`
	Hidden  string    `yaml:"-"`
	private time.Time `yaml:"private"`
}

type inline struct {
	Kind  kind   `yaml:"kind"`
	Other uint16 `yaml:"other,omitempty"`
}

// kind has methods that YAML doesn't use.
type kind string

func (k kind) String() string { return "kind " + string(k) }

// MarshalProto implements protobuf.ProtoMarshaler: the library asks for it, and this test doesn't.
func (everything) MarshalProto() ([]byte, error) { return nil, nil }

// DeepCopy implements typed.DeepCopyable.
func (e everything) DeepCopy() everything { return e }

type definition struct{}

// ResourceDefinition implements typed.Extension.
func (definition) ResourceDefinition() meta.ResourceDefinitionSpec {
	return meta.ResourceDefinitionSpec{}
}

// byYAML is the long way to a spec's JSON, that of a client that gets YAML. It isn't ok for what the libraries write and
// can't read, such as a text of two lines that begins with a tab.
func byYAML(t interface{ Fatal(...any) }, spec everything) (text string, ok bool) {
	p, err := protobuf.FromResource(typed.NewResource[everything, definition](resource.Metadata{}, spec))
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	out, err := yamljson.ToJSON([]byte(m.GetSpec().GetYamlSpec()))
	return string(out), err == nil
}

// TestJSONIsThatOfTheYAML: members, their order and their values are the same bytes.
func TestJSONIsThatOfTheYAML(t *testing.T) {
	texts := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ -~]{0,12}`),
		rapid.SampledFrom([]string{"", "true", "no", "null", "~", "7", "1e3", "0x1f", "1:20", "2030-01-01", " x ", "a: b", "#", "- a", "a\nb\n", "\n", "\t", "<<", "<&>\"\\", "\u2028\u2029", "\x7f", "grün", "😀"}))
	times := rapid.Map(rapid.Int64Range(-62135596800, 253402300799), func(s int64) time.Time { return time.Unix(s, s&0xffffff).UTC() })
	part := rapid.Custom(func(t *rapid.T) inline {
		return inline{Kind: kind(texts.Draw(t, "kind")), Other: rapid.Uint16Max(2).Draw(t, "other")}
	})
	rapid.Check(t, func(t *rapid.T) {
		is := everything{
			inline: part.Draw(t, "inline"), Text: texts.Draw(t, "text"), Maybe: texts.Draw(t, "maybe"), Yes: rapid.Bool().Draw(t, "yes"), MaybeNo: rapid.Bool().Draw(t, "maybe no"),
			Int: rapid.Int64().Draw(t, "int"), Uint: rapid.Uint64().Draw(t, "uint"), At: times.Draw(t, "at"), Until: rapid.OneOf(rapid.Just(time.Time{}), times).Draw(t, "until"),
			Texts: rapid.SliceOfN(texts, 0, 3).Draw(t, "texts"), More: rapid.SliceOfN(part, 0, 2).Draw(t, "more"), Part: rapid.Ptr(part, true).Draw(t, "part"), Rest: rapid.Ptr(part, true).Draw(t, "rest"),
			Hidden: "hidden", private: time.Now(),
		}
		got, ok := stateview.JSON(&is)
		if want, readable := byYAML(t, is); !ok || readable && string(got) != want {
			t.Fatalf("%v\ngot  %s\nwant %s", ok, got, want)
		}
	})
}

type pair struct{ A, B int }

type zeroed struct{ N int }

func (z zeroed) IsZero() bool { return z.N == 7 }

type spoken struct{ N int }

func (spoken) MarshalYAML() (any, error) { return "spoken", nil }

type written int

func (written) MarshalText() ([]byte, error) { return []byte("written"), nil }

// TestWhatJSONDoesNotKnow takes the way by YAML.
func TestWhatJSONDoesNotKnow(t *testing.T) {
	for name, spec := range map[string]any{
		"nothing":           nil,
		"names not in tags": pair{},
		"map": struct {
			M map[string]string `yaml:"m"`
		}{},
		"fraction": struct {
			F float64 `yaml:"f"`
		}{},
		"any": struct {
			A any `yaml:"a"`
		}{A: "x"},
		"bytes": struct {
			B []byte `yaml:"b"`
		}{B: []byte("x")},
		"duration": struct {
			D time.Duration `yaml:"d"`
		}{D: time.Second},
		"own form": struct {
			S *spoken `yaml:"s"`
		}{S: &spoken{}},
		"own text": struct {
			W []written `yaml:"w"`
		}{W: []written{1}},
		"own zero": struct {
			Z zeroed `yaml:"z,omitempty"`
		}{},
		"struct omitted": struct {
			P inline `yaml:"p,omitempty"`
		}{},
		"another flag": struct {
			L []string `yaml:"l,flow"`
		}{},
		"map of other members": struct {
			M map[string]string `yaml:",inline"`
		}{},
		"not UTF-8": struct {
			T string `yaml:"t"`
		}{T: "\xff"},
		"year 10000": struct {
			T time.Time `yaml:"t"`
		}{T: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		if text, ok := stateview.JSON(spec); ok {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// received is a resource as a client of a node has it, with the spec's text as given.
func received(t testing.TB, r resource.Resource, asJSON bool) resource.Resource {
	t.Helper()
	if _, err := statetest.New(t.Context()); err != nil { // registers the types
		t.Fatal(err)
	}
	p, err := protobuf.FromResource(r)
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if asJSON {
		text, ok := stateview.JSON(r.Spec())
		if !ok {
			t.Fatal("no JSON")
		}
		m.Spec.YamlSpec = string(text)
	}
	out, err := protobuf.Unmarshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func sample() *statetest.Workload {
	since := time.Date(2026, 11, 24, 10, 0, 0, 5, time.UTC)
	w := statetest.NewWorkload("1-1", statetest.WorkloadSpec{Kind: "volume", Phase: "deployed", Attempts: 1, Message: "a <b> & \"c\": d"})
	for _, name := range []string{"Accepted", "Admitted", "Prepared", "Provisioned", "InSync", "Reported"} {
		w.TypedSpec().Conditions = append(w.TypedSpec().Conditions, statetest.Condition{Type: name, Status: "True", Reason: name, Message: "it is", Since: since})
	}
	return w
}

// TestADocumentIsTheSameEachWay: the resource itself, its YAML and its JSON make the same document.
func TestADocumentIsTheSameEachWay(t *testing.T) {
	w := sample()
	w.Metadata().Labels().Set("user", "u")
	var all [][]byte
	for _, r := range []resource.Resource{w, received(t, w, false), received(t, w, true)} {
		d, err := stateview.NewDocument(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text)
	}
	if !bytes.Equal(all[0], all[1]) || !bytes.Equal(all[1], all[2]) {
		t.Errorf("by itself %s\nby YAML   %s\nby JSON   %s", all[0], all[1], all[2])
	}
}

// TestADocumentOfATombstone: what is gone has no spec.
func TestADocumentOfATombstone(t *testing.T) {
	d, err := stateview.NewDocument(resource.NewTombstone(sample().Metadata()))
	if err != nil || string(d.Spec) != "null" || d.Metadata.ID != "1-1" {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestATextThatYAMLLoses: the library writes one of two lines that begins with a tab, and can't read it.
func TestATextThatYAMLLoses(t *testing.T) {
	w := sample()
	w.TypedSpec().Message = "\ttab\nmore"
	for _, r := range []resource.Resource{w, received(t, w, true)} {
		d, err := stateview.NewDocument(r)
		if err != nil || !bytes.Contains(d.Spec, []byte(`"message":"\ttab\nmore"`)) {
			t.Errorf("%s, %v", d.Spec, err)
		}
	}
}

// BenchmarkWayOfASpec compares both ways of a workload's spec: what the node does for a client, and the client to show it.
func BenchmarkWayOfASpec(b *testing.B) {
	w := sample()
	byYAML, byJSON := received(b, w, false), received(b, w, true)
	b.Run("node/yaml", func(b *testing.B) {
		for b.Loop() {
			if _, err := protobuf.FromResource(w); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("node/json", func(b *testing.B) {
		for b.Loop() {
			if _, ok := stateview.JSON(w.Spec()); !ok {
				b.Fatal("no JSON")
			}
		}
	})
	for name, r := range map[string]resource.Resource{"client/yaml": byYAML, "client/json": byJSON} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				d, err := stateview.NewDocument(r)
				if err != nil || d.Values() == nil {
					b.Fatal(err)
				}
			}
		})
	}
}
