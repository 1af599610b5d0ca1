// Package expect has the checks that the conformance suites share. It owns nothing.
package expect

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/node"
)

// Patience is how long a suite waits for events that must come soon.
const Patience = 20 * time.Second

// NoError fails at once when err isn't nil.
func NoError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Kind fails unless err has that kind and a text a person can use.
func Kind(t *testing.T, err error, kind node.Kind) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("error is %v (kind %s), want kind %s", err, node.KindOf(err), kind)
	}
	if !strings.HasPrefix(err.Error(), "cannot ") {
		t.Errorf("error %q doesn't begin with \"cannot\"", err)
	}
}

// Text fails unless err contains all of texts.
func Text(t *testing.T, err error, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("error is %v, want it to say %q", err, text)
		}
	}
}

// BadNames are names that must never become a file's.
func BadNames() []string {
	return []string{
		"", ".", "..", "../../x", "/", "/etc/passwd", "a/b", "a\x00b", "a b", ".hidden", "-rf",
		"ä", "a\nb", "*", "$(id)", strings.Repeat("a", 65), strings.Repeat("a", 1<<16),
	}
}

// Receive takes the next value of a stream.
func Receive[T any](t *testing.T, ch <-chan T) T {
	t.Helper()
	select {
	case v, ok := <-ch:
		if !ok {
			t.Fatal("the stream ended")
		}
		return v
	case <-time.After(Patience):
		t.Fatalf("nothing came for %s", Patience)
	}
	panic("not reached")
}

// Closed fails unless the stream ends soon.
func Closed[T any](t *testing.T, ch <-chan T) {
	t.Helper()
	late := time.After(Patience)
	for {
		select {
		case _, ok := <-ch:
			if !ok {
				return
			}
		case <-late:
			t.Fatalf("the stream is open %s after its context ended", Patience)
		}
	}
}

// Hashes of two reservations.
const (
	OneHash     = "1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a"
	AnotherHash = "2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b"
)

// MiB is in bytes; Most is the largest size.
const (
	MiB  = uint64(1) << 20
	Most = uint64(math.MaxUint64)
)
