package provision_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/provisioner/volume"
	"github.com/croft-edge/croft/provision/store"
)

// A node that lost its store is given a user's old ID for another user's volume of the same
// size, by an explorer that lies or has lost its counter. The second user doesn't get the
// first one's data, and the second reservation's end doesn't remove it.
func TestAnIDThatIsGivenToAnother(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, n *incarnation) {
		id := w.volume(yearLong)
		w.answered(id, workload.StateOK)
		mine := w.storage.disk.Filesystems()[id]
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
		time.Sleep(time.Minute) // reservations signed now are newer than the new store
		first := w.user
		w.user = newKey(t)
		w.explorer.pushAs(id, w.reserve(workload.TypeVolume, `{"size":1,"type":"SSD"}`, nil))
		*n = *w.start(newStepper(""))
		if r := w.answered(id, workload.StateError); !strings.Contains(r.Error, "isn't this reservation's") {
			t.Errorf("the second user is told %q", r.Error)
		}
		w.remove(id)
		time.Sleep(time.Hour)
		if got := w.storage.disk.Filesystems()[id]; got != mine || mine.Hash == "" || first.ID() == w.user.ID() {
			t.Errorf("on the node is %+v, was %+v", got, mine)
		}
	})
}

// unlabel removes the hash from a file system's label.
func (s *storage) unlabel(name string) {
	s.disk.Change(name, func(f *node.Filesystem) { f.Hash = "" })
}

// Workloads that an older croft has made get their labels when this one starts, so that
// they are still their users' when the node loses its records. None is made anew, reported
// to its user, or logged as drift.
func TestUnlabelledWorkloadsOfOlderCroftGetLabels(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, n *incarnation) {
		id := w.volume(yearLong)
		told := w.answered(id, workload.StateOK)
		n.stop(t)
		rec, err := w.records.Record(id)
		if err != nil {
			t.Fatal(err)
		}
		rec.Unlabelled = true
		if _, err := w.records.Write(rec); err != nil {
			t.Fatal(err)
		}
		made, _ := w.storage.InspectFilesystem(t.Context(), id)
		w.storage.unlabel(id)
		w.provisioners = map[workload.Type]provisioner.Provisioner{workload.TypeVolume: volume.New(volume.Config{
			Storage: w.storage, Containers: emptyContainers{}, Past: provision.NewOwners(w.records),
		})}
		*n = *w.start(newStepper(""))
		time.Sleep(time.Hour)
		if got, _ := w.storage.InspectFilesystem(t.Context(), id); got.Hash != made.Hash || made.Hash == "" || w.storage.creations(id) != 1 {
			t.Errorf("it has the label %q, want %q; it was made %d times", got.Hash, made.Hash, w.storage.creations(id))
		}
		s := n.status(t, id)
		if s.Phase != string(store.Deployed) || s.Restored != 0 || s.Drift != nil || n.engine.Drifts()[workload.TypeVolume] != 0 {
			t.Errorf("status is %+v", s)
		}
		if again := w.answered(id, workload.StateOK); again.Sequence != told.Sequence {
			t.Errorf("told anew: %+v", again)
		}
		if rec, err = w.records.Record(id); err != nil || rec.Unlabelled {
			t.Errorf("the record still says that it has none: %+v, %v", rec, err)
		}
	})
}
