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

func slowResend(w *world) {
	w.wrap = func(r *steppedRecords) store.Records { return slowDisk{r} }
}

// volumes are 20 of them, which are deployed, with the explorer having all results.
func (w *world) volumes() (ids []string) {
	for range 20 {
		ids = append(ids, w.volume(nil))
	}
	for _, id := range ids {
		w.answered(id, workload.StateOK)
	}
	return ids
}

// untilDelivered waits until the explorer has every result, and the records know it.
func (w *world) untilDelivered() {
	w.until("all are delivered", func() bool { owed, err := w.records.Undelivered(); return err == nil && len(owed) == 0 })
}

// A page of a restored explorer that has a document twice costs no other reservation its
// answer.
func TestADocumentTwiceInAPage(t *testing.T) {
	inWorld(t, slowResend, func(t *testing.T, w *world, _ *incarnation) {
		ids := w.volumes()
		w.untilDelivered()
		w.explorer.mu.Lock()
		w.explorer.twice = ids[10]
		w.explorer.mu.Unlock()
		w.explorer.restoreBackup("restored", func(string) bool { return true })
		time.Sleep(time.Hour)
		for _, id := range ids {
			if w.explorer.result(id) == nil {
				t.Errorf("an hour later the restored explorer has no result of %s", id)
			}
		}
	})
}

// A tombstone that ends in the round in which its answer is asked for again is buried only
// after the answer.
func TestATombstoneIsBuriedAfterItsAnswer(t *testing.T) {
	inWorld(t, slowResend, func(t *testing.T, w *world, _ *incarnation) {
		w.volumes() // so that the refused one comes in the second round
		refused := w.explorer.push(w.reserve(workload.TypeVolume, `{"size":0,"type":"SSD"}`, func(r *workload.Reservation) { r.Duration = 10 * time.Minute }))
		w.answered(refused, workload.StateError)
		w.untilDelivered()
		doc := w.explorer.document(refused)
		time.Sleep(doc.Created.Add(doc.Duration).Sub(w.clock.wall()) - 500*time.Millisecond)
		w.explorer.restoreBackup("restored", func(string) bool { return true })
		time.Sleep(time.Hour)
		if w.explorer.result(refused) == nil {
			_, err := w.records.Record(refused)
			t.Errorf("an hour later the restored explorer has no result of %s; its record: %v", refused, err)
		}
	})
}

// The answer of a reservation with a renewal that can't be judged yet is sent again too.
func TestAnAnswerWithAPendingRenewal(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, _ *incarnation) {
		id := w.volume(nil)
		w.answered(id, workload.StateOK)
		w.untilDelivered()
		w.clock.set(0, false, false)
		w.renew(id, w.clock.wall().Add(500*24*time.Hour)) // too long, which a trusted time tells
		time.Sleep(time.Minute)
		if rec, err := w.records.Record(id); err != nil || rec.Pending == nil {
			t.Fatalf("no renewal is pending: %v", err)
		}
		w.explorer.restoreBackup("restored", func(string) bool { return true })
		time.Sleep(time.Hour)
		if w.explorer.result(id) == nil {
			t.Errorf("an hour later the restored explorer has no result of %s", id)
		}
	})
}

// A reservation whose end has come, and can't be proven yet, is answered again too.
func TestTheAnswerOfOneThatIsHeld(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, _ *incarnation) {
		id := w.volume(nil)
		w.answered(id, workload.StateOK)
		w.untilDelivered()
		w.clock.set(400*24*time.Hour, true, false)
		w.explorer.restoreBackup("restored", func(string) bool { return true })
		time.Sleep(time.Hour)
		if w.explorer.result(id) == nil {
			t.Errorf("an hour later the restored explorer has no result of %s, which is %s", id, w.phase(id))
		}
	})
}

// An explorer takes no results, and gives the ID of the only one that is owed to another
// reservation. Later results are sent all the same.
func TestTheOnlyOwedResultIsReplaced(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, _ *incarnation) {
		genuine := w.reserve(workload.TypeVolume, `{"size":1,"type":"SSD"}`, nil)
		w.answered(w.explorer.push(genuine), workload.StateOK)
		w.untilDelivered()
		w.explorer.setDeaf(true)
		const id = "5000-1"
		w.explorer.pushAs(id, genuine) // a replay
		w.until("it is dismissed", func() bool { rec, err := w.records.Record(id); return err == nil && rec.Phase == store.Dismissed })
		time.Sleep(time.Minute)
		w.storage.hooked(func(call string) {
			if call == "create "+id {
				time.Sleep(30 * time.Second) // like the download of a large image
			}
		})
		w.explorer.pushAs(id, w.reserve(workload.TypeVolume, `{"size":2,"type":"SSD"}`, nil))
		time.Sleep(time.Minute)
		w.explorer.setDeaf(false)
		w.answered(w.volume(nil), workload.StateOK)
	})
}

// A node that lost its cursor receives everything again: the results to be resent share
// their durable writes.
func TestAnswersAskedForAgainShareAWrite(t *testing.T) {
	const all = 40
	inWorld(t, slowResend, func(t *testing.T, w *world, n *incarnation) {
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
