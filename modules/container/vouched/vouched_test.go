package vouched

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// TestLists generates what croft and other programs do with users' things, and when that is heard, and holds that a kept list is what there was at
// its listing, or since: while all is heard, it is what there is.
func TestLists(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l Lists[int]
		is, untold := map[string]int{}, map[string]bool{}
		live := false
		users := rapid.SampledFrom([]string{"a", "b", "c"})
		change := func(user string) {
			is[user]++
			l.Forget(user)
			delete(untold, user)
		}
		look := func(user string, between func()) {
			of, kept, epoch := l.Kept(user)
			switch {
			case kept && !live:
				t.Fatalf("a list of %s is kept, and nothing vouches for it", user)
			case kept && of != is[user] && !untold[user]:
				t.Fatalf("the kept list of %s is %d, and %d is there", user, of, is[user])
			case !kept:
				of = is[user]
				between()
				l.Keep(user, epoch, of)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"change": func(t *rapid.T) { change(users.Draw(t, "user")) },
			"change by another program": func(t *rapid.T) {
				user := users.Draw(t, "user")
				is[user]++
				untold[user] = true
			},
			"hear": func(*rapid.T) {
				for user := range untold {
					l.Forget(user)
				}
				clear(untold)
			},
			"live": func(*rapid.T) {
				l.Live()
				live = true
				clear(untold)
			},
			"lost": func(*rapid.T) {
				l.Lost()
				live = false
			},
			"only": func(t *rapid.T) {
				user := users.Draw(t, "user")
				l.Only([]string{user})
				for other := range maps.Keys(is) {
					if _, kept, _ := l.Kept(other); kept && other != user {
						t.Fatalf("a list of %s is kept, and it isn't a user any longer", other)
					}
				}
			},
			"look":                 func(t *rapid.T) { look(users.Draw(t, "user"), func() {}) },
			"look across a change": func(t *rapid.T) { user := users.Draw(t, "user"); look(user, func() { change(user) }) },
			"look across a loss": func(t *rapid.T) {
				look(users.Draw(t, "user"), func() {
					l.Lost()
					l.Live()
					live = true
					clear(untold)
				})
			},
		})
	})
}

// TestAListIsReadAgainInTheEnd: an event may be missing for a reason that nobody has thought of.
func TestAListIsReadAgainInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Lists[string]
		l.Live()
		_, _, epoch := l.Kept("a")
		l.Keep("a", epoch, "list")
		time.Sleep(verifyEvery * 7 / 10)
		if of, kept, _ := l.Kept("a"); !kept || of != "list" {
			t.Errorf("after seven tenths of %s it is %q, kept %t", verifyEvery, of, kept)
		}
		time.Sleep(verifyEvery * 6 / 10)
		if _, kept, _ := l.Kept("a"); kept {
			t.Errorf("it is kept for 1.3 times %s", verifyEvery)
		}
	})
}
