package workload_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/gowebpki/jcs"
	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// repeated is a JSON array of as many items as fit into a size.
func repeated(item string, size int) string {
	n := size / (len(item) + 1)
	return "[" + strings.Repeat(item+",", n-1) + item + "]"
}

// wide is an object of many members in reverse order.
func wide(members int, name string) string {
	var b strings.Builder
	for i := range members {
		fmt.Fprintf(&b, `,"%s%d":0`, name, members+members-i)
	}
	return "{" + b.String()[1:] + "}"
}

// costlyData are data that are costly to read.
func costlyData() map[string]string {
	const size = workload.MaxData - 4096
	return map[string]string{
		"zeros":            repeated("0", size),
		"as many as may":   repeated(`0.123456789012`, size),
		"objects":          repeated(`{"a":{}}`, size),
		"fractions":        repeated("1.2345678901234567e-300", size),
		"wide objects":     repeated(wide(workload.MaxMembers, ""), size),
		"long names":       wide(workload.MaxMembers, strings.Repeat("n", 1900)),
		"a long name":      `{"` + strings.Repeat("n", size/2) + `":` + repeated(wide(100, ""), size/2) + `}`,
		"escapes":          `["` + strings.Repeat(`\n`, size/2) + `"]`,
		"control":          `["` + strings.Repeat(`\u0001`, size/6) + `"]`,
		"deep":             strings.Repeat("[", 28) + `"` + strings.Repeat("x", size) + `"` + strings.Repeat("]", 28),
		"deep and unknown": strings.Repeat(`{"b":0,"a":`, 28) + `"` + strings.Repeat("x", size-400) + `"` + strings.Repeat("}", 28),
	}
}

// The costliest documents before the signature check allocate a small multiple of
// their own length: the cost follows from the received bytes.
func TestACostlyDocumentIsCheap(t *testing.T) {
	key, err := sign.Generate()
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range costlyData() {
		body := []byte(`{"node_id":"` + key.ID() + `","user_id":"` + key.ID() + `","type":"volume","created":"2026-01-02T03:04:05Z","duration":1,"version":2,` +
			`"nonce":"AAAAAAAAAAAAAAAAAAAAAA==","signature":"` + strings.Repeat("A", 86) + `==","data":` + data + `}`)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, err := workload.Decode(body)
		if err == nil {
			err = workload.Verify(r)
		}
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: it is accepted", name)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > uint64(40*len(body)) {
			t.Errorf("%s: %d bytes of it made %d", name, len(body), got)
		}
	}
}

// BenchmarkUnsigned measures the cost of one document before its signature is refused.
func BenchmarkUnsigned(b *testing.B) {
	for name, data := range costlyData() {
		body := []byte(`{"node_id":"x","user_id":"x","type":"volume","created":"2026-01-02T03:04:05Z","duration":1,"version":2,"nonce":"AAAAAAAAAAAAAAAAAAAAAA==","signature":"AAAA","data":` + data + `}`)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if r, err := workload.Decode(body); err == nil {
					_ = workload.Verify(r)
				}
			}
		})
	}
}

func TestValuesAreCounted(t *testing.T) {
	for n, ok := range map[int]bool{workload.MaxValues - 1: true, workload.MaxValues: false} {
		text := "[" + strings.Repeat("0,", n-1) + "0]"
		if _, err := workload.Canonical(json.RawMessage(text)); (err == nil) != ok {
			t.Errorf("%d values in an array: %v", n, err)
		}
	}
}

// Canonical data equals the library's output.
func TestCanonicalIsTheLibrarys(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.RuneFrom([]rune{'a', '"', '\\', '/', 1, '\n', '\b', 0xe000, 0xffff, 0x10000, 0x10ffff, 0x7ff, 0x2028, '<'})))
	spelled := func(t *rapid.T, s string) string {
		plain, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(t, "escaped") {
			var b strings.Builder
			for _, u := range utf16Of(s) {
				fmt.Fprintf(&b, `\u%04x`, u)
			}
			return `"` + b.String() + `"`
		}
		return string(plain)
	}
	var value func(t *rapid.T, depth int) string
	value = func(t *rapid.T, depth int) string {
		kinds := 4
		if depth > 4 {
			kinds = 2
		}
		switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
		case 0:
			return spelled(t, text.Draw(t, "text"))
		case 1:
			n := rapid.Float64Range(-1e15, 1e15).Draw(t, "number")
			return fmt.Sprintf(rapid.SampledFrom([]string{"%g", "%.0f", "%e", "%.3f"}).Draw(t, "form"), n)
		case 2:
			names := rapid.SliceOfNDistinct(text, 0, 6, func(s string) string { return s }).Draw(t, "names")
			var parts []string
			for _, n := range names {
				parts = append(parts, spelled(t, n)+" : "+value(t, depth+1))
			}
			return "{" + strings.Join(parts, " ,") + "}"
		default:
			var parts []string
			for range rapid.IntRange(0, 4).Draw(t, "items") {
				parts = append(parts, value(t, depth+1))
			}
			return "[\n" + strings.Join(parts, ",") + " ]"
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		in := value(t, 0)
		got, err := workload.Canonical(json.RawMessage(in))
		if err != nil {
			t.Fatalf("%s: %v", in, err)
		}
		want, err := jcs.Transform([]byte("[" + in + "]"))
		if err != nil || "["+string(got)+"]" != string(want) {
			t.Fatalf("%s is %s, the library says %s, %v", in, got, want, err)
		}
	})
}

func utf16Of(s string) []uint16 { return utf16.Encode([]rune(s)) }
