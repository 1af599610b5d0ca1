package versioned_test

import (
	"bytes"
	"os"
	"testing"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/versioned"
)

func TestSplit(t *testing.T) {
	for _, tt := range []struct {
		name, data string
		version    string
		body       string
	}{
		{"a header and a body", `"1.0.0"{"id":"1-1"}`, "1.0.0", `{"id":"1-1"}`},
		{"a header alone", `"12.34.56"`, "12.34.56", ""},
		{"no header", `{"id":"1-1"}`, "0.0.0", `{"id":"1-1"}`},
		{"nothing", "", "0.0.0", ""},
		{"raw bytes that begin with a quote", "\"\x01\x02", "0.0.0", "\"\x01\x02"},
		{"a string that is no version", `"hello"x`, "0.0.0", `"hello"x`},
		{"two numbers", `"1.0"x`, "0.0.0", `"1.0"x`},
		{"a leading zero", `"01.0.0"x`, "0.0.0", `"01.0.0"x`},
		{"a sign", `"+1.0.0"x`, "0.0.0", `"+1.0.0"x`},
		{"a header that never ends", `"1.0.0`, "0.0.0", `"1.0.0`},
		{"numbers beyond 64 bits", `"99999999999999999999.0.0"x`, "0.0.0", `"99999999999999999999.0.0"x`},
	} {
		v, body := versioned.Split([]byte(tt.data))
		if v.String() != tt.version || string(body) != tt.body {
			t.Errorf("%s: %s %q, want %s %q", tt.name, v, body, tt.version, tt.body)
		}
	}
}

// The recorded seed files: one with a header, and the same seed without.
func TestSeedFiles(t *testing.T) {
	with, err := os.ReadFile("testdata/node1.seed")
	if err != nil {
		t.Fatal(err)
	}
	without, err := os.ReadFile("testdata/node1-unversioned.seed")
	if err != nil {
		t.Fatal(err)
	}
	v, seed := versioned.Split(with)
	if v != (versioned.Version{Major: 1}) || len(seed) != 32 {
		t.Fatalf("version %s with %d bytes, want 1.0.0 with 32", v, len(seed))
	}
	v0, raw := versioned.Split(without)
	if v0 != (versioned.Version{}) || !bytes.Equal(raw, seed) {
		t.Errorf("version %s with %x, want 0.0.0 with %x", v0, raw, seed)
	}
	if !bytes.Equal(versioned.Join(v, raw), with) {
		t.Error("joined it isn't the recorded file")
	}
}

func TestJoinThenSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := versioned.Version{Major: rapid.Uint64().Draw(t, "major"), Minor: rapid.Uint64().Draw(t, "minor"), Patch: rapid.Uint64().Draw(t, "patch")}
		body := rapid.SliceOf(rapid.Byte()).Draw(t, "body")
		got, rest := versioned.Split(versioned.Join(v, body))
		if got != v || !bytes.Equal(rest, body) {
			t.Fatalf("%s %q, want %s %q", got, rest, v, body)
		}
	})
}

func TestParse(t *testing.T) {
	for _, bad := range []string{"", "1", "1.0", "1.0.0.0", "1.0.x", "-1.0.0", " 1.0.0", "1.0.0-rc1"} {
		if v, err := versioned.Parse(bad); err == nil {
			t.Errorf("%q is taken for %s", bad, v)
		}
	}
}
