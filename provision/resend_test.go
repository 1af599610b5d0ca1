package provision_test

import (
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/workload"
)

// A node that lost its cursor hears of everything again: the answers that are asked
// for again share their durable writes.
func TestAnswersAskedForAgainShareAWrite(t *testing.T) {
	const all = 40
	inWorld(t, nil, func(t *testing.T, w *world, n *incarnation) {
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
		w.until("each is told again", func() bool {
			for _, id := range ids {
				if len(w.explorer.all(id)) < 2 {
					return false
				}
			}
			return true
		})
		writes := 0
		for _, point := range n.steps.all() {
			if strings.HasPrefix(point, "before resend") {
				writes++
			}
		}
		if writes == 0 || writes > all/2 {
			t.Errorf("%d answers took %d durable writes", all, writes)
		}
	})
}
