package provision_test

import (
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/store"
)

// slowDisk takes a second of the world's time for each Resend: requests that arrive
// meanwhile wait for the next one.
type slowDisk struct{ *steppedRecords }

func (d slowDisk) Resend(ids ...string) error {
	time.Sleep(time.Second)
	return d.steppedRecords.Resend(ids...)
}

// A node that lost its cursor receives everything again: the results to be resent share
// their durable writes.
func TestAnswersAskedForAgainShareAWrite(t *testing.T) {
	const all = 40
	slow := func(w *world) {
		w.wrap = func(r *steppedRecords) store.Records { return slowDisk{r} }
	}
	inWorld(t, slow, func(t *testing.T, w *world, n *incarnation) {
		var ids []string
		for range all {
			ids = append(ids, w.volume(nil))
		}
		for _, id := range ids {
			w.answered(id, workload.StateOK)
		}
		w.until("all are delivered", func() bool { owed, err := w.records.Undelivered(); return err == nil && len(owed) == 0 })
		n.stop(t)
		if err := w.cursor.SetCursor(explorer.Cursor{}); err != nil {
			t.Fatal(err)
		}
		*n = *w.start(newStepper(""))
		writes, answers := 0, 0
		w.until("each is asked for again", func() bool {
			writes, answers = 0, 0
			for _, point := range n.steps.all() {
				if of, resend := strings.CutPrefix(point, "after resend "); resend {
					writes++
					answers += len(strings.Fields(of)) - 1 // the last word numbers the point
				}
			}
			return answers == all
		})
		if writes == 0 || writes > all/2 {
			t.Errorf("%d answers took %d durable writes", all, writes)
		}
	})
}
