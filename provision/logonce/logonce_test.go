package logonce_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/provision/logonce"
)

// rig is a Once and the messages that it let through.
type rig struct {
	*logonce.Once
	mu   sync.Mutex
	text bytes.Buffer
	log  zerolog.Logger
}

func newRig() *rig {
	r := &rig{Once: logonce.New()}
	r.log = zerolog.New(r)
	return r
}

// Write implements io.Writer.
func (r *rig) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

// say logs keys, and returns how many of them came through.
func (r *rig) say(keys ...string) int {
	before := r.count()
	for _, key := range keys {
		r.Log(r.log.Warn(), key).Str("id", key).Msg("dropped")
	}
	return r.count() - before
}

func (r *rig) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Count(r.text.String(), "\n")
}

func numbered(from, to int) (keys []string) {
	for i := from; i < to; i++ {
		keys = append(keys, fmt.Sprint(i))
	}
	return keys
}

func TestEachKeyIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		if n := r.say("a", "a", "b", "a"); n != 2 {
			t.Errorf("%d lines of a and b", n)
		}
		time.Sleep(24 * time.Hour)
		if n := r.say("a", "b", "c"); n != 1 {
			t.Errorf("%d lines a day later, want c only", n)
		}
	})
}

// A message that the limit swallowed counted as logged, and never appeared.
func TestSuppressedLinesAreLoggedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		if n := r.say(numbered(0, 100)...); n != 60 {
			t.Errorf("%d lines in the first minute, want 60", n)
		}
		time.Sleep(59 * time.Second)
		if n := r.say("99"); n != 0 {
			t.Errorf("%d lines beyond the limit", n)
		}
		time.Sleep(time.Second)
		if n := r.say(numbered(0, 100)...); n != 40 {
			t.Errorf("%d lines in the second minute, want the 40 that were swallowed", n)
		}
	})
}

func TestBoundedMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		for i := range 2000 {
			if n := r.say(fmt.Sprint(i)); n != 1 {
				t.Fatalf("%d lines of the new thing %d", n, i)
			}
			time.Sleep(time.Second)
		}
		if n := r.say("0"); n != 1 {
			t.Error("what was said before a thousand others is still remembered")
		}
		long := strings.Repeat("x", 10_000)
		if n := r.say(long+"1", long+"2"); n != 1 {
			t.Errorf("%d lines of long keys that start alike", n)
		}
	})
}

func TestManyMaySpeakAtOnce(t *testing.T) {
	r := newRig()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { r.say(numbered(0, 50)...) })
	}
	all.Wait()
	if n := r.count(); n != 50 {
		t.Errorf("%d lines of 50 things", n)
	}
}
