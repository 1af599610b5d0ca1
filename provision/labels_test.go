package provision_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/store"
)

// A node that lost its store is given a user's old ID for somebody else's volume of
// the same size, by an explorer that lies or has lost its counter. What the first
// one wrote isn't the second one's, and the second one's end doesn't take it away.
func TestAnIDThatIsGivenToAnother(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, n *incarnation) {
		id := w.volume(yearLong)
		w.answered(id, workload.StateOK)
		mine := w.storage.have[id]
		time.Sleep(time.Hour)
		n.stop(t)
		if err := w.records.Close(); err != nil {
			t.Fatal(err)
		}
		w.dir = filepath.Join(w.dir, "new")
		lost, err := store.Open(store.Config{Root: w.dir, Clock: w.clock})
		if err != nil {
			t.Fatal(err)
		}
		w.records = lost
		if err := w.cursor.SetCursor(lost.Cursor()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // what is signed now is newer than the new store
		first := w.user
		w.user = newKey(t)
		w.explorer.pushAs(id, w.reserve(workload.TypeVolume, `{"size":1,"type":"SSD"}`, nil))
		*n = *w.start(newStepper(""))
		if r := w.answered(id, workload.StateError); !strings.Contains(r.Error, "isn't this reservation's") {
			t.Errorf("the second user is told %q", r.Error)
		}
		w.remove(id)
		time.Sleep(time.Hour)
		if got := w.storage.have[id]; got != mine || mine.Hash == "" || first.ID() == w.user.ID() {
			t.Errorf("on the node is %+v, was %+v", got, mine)
		}
	})
}
