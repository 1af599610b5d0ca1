package source

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/workload"
)

// TestAPageIsTakenInTurns: however many reservations of others are in a page, a user's
// waits, for each that he has before it, for at most one of each other user in its
// place; deletions stay first, and each user's order stays.
func TestAPageIsTakenInTurns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var batch []*workload.Reservation
		for i := range rapid.IntRange(0, 40).Draw(t, "size") {
			r := &workload.Reservation{
				ID: fmt.Sprint(i), User: rapid.SampledFrom([]string{"hostile", "hostile", "hostile", "honest", "third"}).Draw(t, "user"),
				Type: rapid.SampledFrom([]workload.Type{workload.TypeNetwork, workload.TypeVolume, workload.TypeContainer}).Draw(t, "type"),
			}
			if rapid.Bool().Draw(t, "leaves") {
				r.Deletion = &workload.Deletion{}
			}
			batch = append(batch, r)
		}
		came := slices.Clone(batch)
		order(batch)
		if !slices.IsSortedFunc(batch, func(a, b *workload.Reservation) int { return place(a) - place(b) }) {
			t.Fatal("what must go before comes after")
		}
		for i, r := range batch {
			same := func(o *workload.Reservation) bool { return o.User == r.User && place(o) == place(r) }
			mine := 0
			others := map[string]int{}
			for _, o := range batch[:i] {
				if place(o) != place(r) {
					continue
				}
				if same(o) {
					mine++
					if slices.Index(came, o) > slices.Index(came, r) {
						t.Fatalf("%s of %s is before %s, which came earlier", o.ID, o.User, r.ID)
					}
					continue
				}
				others[o.User]++
			}
			for user, n := range others {
				if n > mine+1 {
					t.Fatalf("%d of %s are before number %d of %s", n, user, mine+1, r.User)
				}
			}
		}
	})
}
