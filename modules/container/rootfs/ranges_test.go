package rootfs

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
)

func TestAUserHasOneRangeForEver(t *testing.T) {
	w := newWorld(t)
	seen := map[Range]string{}
	first := map[string]Range{}
	for i := range 100 {
		user := fmt.Sprint("user", i)
		r, err := w.store.Range(user)
		must(t, err)
		if r.Base < firstID || uint64(r.Base)+uint64(r.Size) > 1<<31 || r.Base%rangeSize != 0 || r.Size != rangeSize {
			t.Errorf("%s has %+v", user, r)
		}
		if other, twice := seen[r]; twice {
			t.Errorf("%s and %s have the same", user, other)
		}
		seen[r], first[user] = user, r
	}
	w.open()
	for user, was := range first {
		if r, err := w.store.Range(user); err != nil || r != was {
			t.Errorf("%s had %v, and has %v, %v", user, was, r, err)
		}
	}
	_, err := w.store.Range("")
	kind(t, err, node.Invalid)
	_, err = w.store.Range(strings.Repeat("x", 257))
	kind(t, err, node.Invalid, "256")
}

func TestTheLastRangeIsGivenAndNoMore(t *testing.T) {
	w := newWorld(t)
	users := map[string]uint32{}
	for i := range rangeCount - 1 {
		users[fmt.Sprint("taken", i)] = uint32(i)
	}
	must(t, writeRanges(w.store.rangesPath(), users))
	w.open()
	if r, err := w.store.Range("last"); err != nil || r != rangeOf(rangeCount-1) {
		t.Errorf("the last range: %v, %v", r, err)
	}
	_, err := w.store.Range("late")
	kind(t, err, node.Refused, "all 4096 are taken")
	if r, err := w.store.Range("taken7"); err != nil || r != rangeOf(7) {
		t.Errorf("who has one keeps it: %v, %v", r, err)
	}
	s := w.spec("1-1")
	s.User = "late"
	_, err = w.store.Make(t.Context(), s)
	kind(t, err, node.Refused)
	w.nothing("1-1")
}

func TestADamagedFileOfRangesIsRefused(t *testing.T) {
	w := newWorld(t)
	for _, user := range []string{"anna", "bert"} {
		_, err := w.store.Range(user)
		must(t, err)
	}
	path := w.store.rangesPath()
	good, err := os.ReadFile(path)
	must(t, err)
	sum, err := sumOf(map[string]uint32{"a": 1, "b": 1})
	must(t, err)
	beyond, err := sumOf(map[string]uint32{"a": 4096})
	must(t, err)
	for name, bad := range map[string]string{
		"empty": "", "cut": string(good[:len(good)/2]), "zeros": strings.Repeat("\x00", len(good)), "another user": strings.Replace(string(good), "anna", "annb", 1),
		"more after it": string(good) + "{}", "another version": strings.Replace(string(good), `"version": 1`, `"version": 2`, 1),
		"a new member": strings.Replace(string(good), `"version"`, `"x":1,"version"`, 1),
		"twice":        fmt.Sprintf(`{"version":1,"sum":%q,"users":{"a":1,"b":1}}`, sum),
		"beyond":       fmt.Sprintf(`{"version":1,"sum":%q,"users":{"a":4096}}`, beyond),
	} {
		if bad == string(good) {
			t.Fatalf("%s isn't damaged", name)
		}
		must(t, os.WriteFile(path, []byte(bad), 0o600))
		_, err := Open(w.config())
		kind(t, err, node.Refused, path, "backup")
		// A store that is open deals none either, and goes on with those it knows.
		_, err = w.store.Range("new")
		kind(t, err, node.Refused, path)
		if _, err := w.store.Range("anna"); err != nil {
			t.Error(err)
		}
		if raw, err := os.ReadFile(path); err != nil || string(raw) != bad {
			t.Errorf("%s: the file was changed", name)
		}
	}
	must(t, os.WriteFile(path, good, 0o600))
	w.open()
}

func TestRangesAreDealtOnceWhoeverAsks(t *testing.T) {
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
				r, err := s.Range(user)
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
