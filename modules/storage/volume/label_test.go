package volume

import (
	"fmt"
	"testing"
)

// TestLabelsAreKept by their whole text, and neither those that can't be read nor more than a bounded number.
func TestLabelsAreKept(t *testing.T) {
	k := &labels{read: map[string]Label{}}
	text := func(i int) []byte { return fmt.Appendf(nil, `{"name":"%d-1","size":%d}`, i, i) }
	for _, broken := range []string{"", "{", "junk"} {
		if l := k.parse([]byte(broken)); l.Name != "" || len(k.read) != 0 {
			t.Errorf("%q is %+v, and %d labels are kept", broken, l, len(k.read))
		}
	}
	for i := range 2*mostLabels + 3 {
		for range 2 { // read, then kept
			if l := k.parse(text(i)); l.Name != fmt.Sprintf("%d-1", i) || l.Size != uint64(i) {
				t.Fatalf("label %d is %+v", i, l)
			}
		}
		if len(k.read) > mostLabels {
			t.Fatalf("%d labels are kept, at most %d may be", len(k.read), mostLabels)
		}
	}
	clear(k.read)
	for i := range 10 {
		k.parse(text(i))
	}
	if k.keep(5); len(k.read) != 10 {
		t.Errorf("%d labels are kept beside five things, want 10", len(k.read))
	}
	if k.keep(4); len(k.read) != 0 {
		t.Errorf("%d labels are kept, most of them of things that are gone", len(k.read))
	}
}
