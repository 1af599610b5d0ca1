package rootfs

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
)

func TestAUserHasOneRangeForEver(t *testing.T) {
	w := newWorld(t)
	seen := map[Range]string{}
	first := map[string]Range{}
	for i := range 100 {
		user := fmt.Sprint("user", i)
		r := w.hold(user)
		if r.Base < firstID || uint64(r.Base)+uint64(r.Size) > 0xf0000000 || r.Base%rangeSize != 0 || r.Size != rangeSize {
			t.Errorf("%s has %+v", user, r)
		}
		if other, twice := seen[r]; twice {
			t.Errorf("%s and %s have the same", user, other)
		}
		seen[r], first[user] = user, r
	}
	w.open()
	for user, was := range first {
		if r := w.hold(user); r != was {
			t.Errorf("%s had %v, and has %v", user, was, r)
		}
	}
	_, _, err := w.store.ranges.hold("", w.layerOf("x"))
	kind(t, err, node.Invalid)
	_, _, err = w.store.ranges.hold(strings.Repeat("x", 257), w.layerOf("x"))
	kind(t, err, node.Invalid, "256")
}

func TestTheLastRangeIsGivenAndNoMore(t *testing.T) {
	w := newWorld(t)
	users := map[string]share{}
	there := w.layerOf("theirs")
	on, err := fileSystemOf(there)
	must(t, err)
	for i := range rangeCount - 1 {
		users[fmt.Sprint("taken", i)] = share{Index: uint32(i), Layers: map[string]string{there: on}}
	}
	must(t, writeRanges(w.store.ranges.path(), users))
	w.open()
	if r := w.hold("last"); r != rangeOf(rangeCount-1) {
		t.Errorf("the last range: %v", r)
	}
	before := limit.Times()[Ranges.Name]
	_, _, err = w.store.ranges.hold("late", w.layerOf("late"))
	kind(t, err, node.Refused, "all 32768 are taken")
	if limit.Times()[Ranges.Name] != before+1 {
		t.Error("that all are taken isn't counted")
	}
	if r := w.hold("taken7"); r != rangeOf(7) {
		t.Errorf("who has one keeps it: %v", r)
	}
	s := w.spec("1-1")
	s.User = "late"
	_, err = w.store.Make(t.Context(), s)
	kind(t, err, node.Refused)
	w.nothing("1-1")
	// One of them removes its layer: the next one gets in.
	must(t, os.Remove(w.layerOf("last")))
	if r := w.hold("late"); r != rangeOf(rangeCount-1) {
		t.Errorf("the range that was given back isn't given on: %v", r)
	}
}

func TestADamagedFileOfRangesIsRefused(t *testing.T) {
	w := newWorld(t)
	for _, user := range []string{"anna", "bert"} {
		w.hold(user)
	}
	path := w.store.ranges.path()
	good, err := os.ReadFile(path)
	must(t, err)
	sum, err := sumOf(map[string]share{"a": {Index: 1}, "b": {Index: 1}})
	must(t, err)
	beyond, err := sumOf(map[string]share{"a": {Index: 32768}})
	must(t, err)
	for name, bad := range map[string]string{
		"empty": "", "cut": string(good[:len(good)/2]), "zeros": strings.Repeat("\x00", len(good)), "another user": strings.Replace(string(good), "anna", "annb", 1),
		"more after it": string(good) + "{}", "another version": strings.Replace(string(good), `"version":2`, `"version":3`, 1),
		"a new member": strings.Replace(string(good), `"version"`, `"x":1,"version"`, 1),
		"twice":        fmt.Sprintf(`{"version":2,"sum":%q,"users":{"a":{"range":1},"b":{"range":1}}}`, sum),
		"beyond":       fmt.Sprintf(`{"version":2,"sum":%q,"users":{"a":{"range":32768}}}`, beyond),
	} {
		if bad == string(good) {
			t.Fatalf("%s isn't damaged", name)
		}
		must(t, os.WriteFile(path, []byte(bad), 0o600))
		_, err := Open(w.config())
		kind(t, err, node.Refused, path, "backup")
		// A store that is open deals none either, and goes on with those it knows.
		_, _, err = w.store.ranges.hold("new", w.layerOf("new"))
		kind(t, err, node.Refused, path)
		w.hold("anna")
		if raw, err := os.ReadFile(path); err != nil || string(raw) != bad {
			t.Errorf("%s: the file was changed", name)
		}
	}
	must(t, os.WriteFile(path, good, 0o600))
	w.open()
}

func TestConcurrentRangeAssignment(t *testing.T) {
	w := newWorld(t)
	other, err := Open(w.config())
	must(t, err)
	var mu sync.Mutex
	owner := map[Range]string{}
	var done sync.WaitGroup
	for i := range 40 {
		for _, s := range []*Store{w.store, other} {
			done.Go(func() {
				user := fmt.Sprint("user", i)
				r, _, err := s.ranges.hold(user, w.layerOf(user))
				mu.Lock()
				defer mu.Unlock()
				if was, ok := owner[r]; err != nil || ok && was != user {
					t.Errorf("%s got %v, which is that of %q: %v", user, r, was, err)
				}
				owner[r] = user
			})
		}
	}
	done.Wait()
	if len(owner) != 40 {
		t.Errorf("40 users have %d ranges", len(owner))
	}
}
