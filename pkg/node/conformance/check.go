package conformance

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/node"
)

// patience is how long a suite waits for what must come soon.
const patience = 20 * time.Second

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantKind fails unless err has that kind and a text a person can use.
func wantKind(t *testing.T, err error, kind node.Kind) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("error is %v (kind %s), want kind %s", err, node.KindOf(err), kind)
	}
	if !strings.HasPrefix(err.Error(), "cannot ") {
		t.Errorf("error %q doesn't begin with \"cannot\"", err)
	}
}

// wantText fails unless err says all of texts.
func wantText(t *testing.T, err error, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("error is %v, want it to say %q", err, text)
		}
	}
}

// badNames are names that must never become a file's.
func badNames() []string {
	return []string{
		"", ".", "..", "../../x", "/", "/etc/passwd", "a/b", "a\x00b", "a b", ".hidden", "-rf",
		"ä", "a\nb", "*", "$(id)", strings.Repeat("a", 65), strings.Repeat("a", 1<<16),
	}
}

// receive takes the next value of a stream.
func receive[T any](t *testing.T, ch <-chan T) T {
	t.Helper()
	select {
	case v, ok := <-ch:
		if !ok {
			t.Fatal("the stream ended")
		}
		return v
	case <-time.After(patience):
		t.Fatalf("nothing came for %s", patience)
	}
	panic("not reached")
}

// wantClosed fails unless the stream ends soon.
func wantClosed[T any](t *testing.T, ch <-chan T) {
	t.Helper()
	late := time.After(patience)
	for {
		select {
		case _, ok := <-ch:
			if !ok {
				return
			}
		case <-late:
			t.Fatalf("the stream is open %s after its context ended", patience)
		}
	}
}

// Hashes of two reservations.
const (
	oneHash     = "1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a"
	anotherHash = "2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b"
)

const (
	mib  = uint64(1) << 20
	most = uint64(math.MaxUint64)
)
