package store_test

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/store"
)

// Several records are written in one go: each file is synced, their folder once.
func TestABatchSharesItsFsync(t *testing.T) {
	steps := map[atomicfile.Op]int{}
	s := open(t, store.Config{Root: fastDir(t), Hook: func(p atomicfile.Point) error {
		if p.After {
			steps[p.Op]++
		}
		return nil
	}})
	finish(t, s, answered(record(volume("9-1", time.Now(), time.Hour), store.Intent), store.Deployed, workload.StateOK)) // reserves numbers
	clear(steps)
	var batch []store.Record
	for i := range 8 {
		batch = append(batch, answered(record(volume(workload.ID{N: uint64(i) + 1, M: 2}.String(), time.Now(), time.Hour), store.Intent), store.Deployed, workload.StateOK))
	}
	out, err := s.Write(batch...)
	if err != nil || len(out) != 8 {
		t.Fatalf("%d records, %v", len(out), err)
	}
	if steps[atomicfile.Sync] != 8 || steps[atomicfile.Rename] != 8 || steps[atomicfile.SyncDir] != 1 {
		t.Errorf("steps %v, want 8 files and one folder", steps)
	}
	for i, r := range out {
		if r.ID() != batch[i].ID() || r.Result.Sequence != out[0].Result.Sequence+int64(i) || r.Delivered {
			t.Errorf("number %d of the batch is %s with result %d", i, r.ID(), r.Result.Sequence)
		}
	}
	if out, err := s.Write(); err != nil || len(out) != 0 {
		t.Errorf("nothing: %v, %v", out, err)
	}
}

// Two records of one call can't have the same ID or the same hash.
func TestABatchWithConflicts(t *testing.T) {
	s := open(t, store.Config{Root: fastDir(t)})
	r := volume("1-1", time.Now(), time.Hour)
	replay := *r
	replay.ID = "2-1"
	one, two := record(r, store.Intent), record(&replay, store.Intent)
	_, err := s.Write(one, two)
	wantKind(t, "one hash under two IDs", err, node.Exist)
	_, err = s.Write(one, one)
	wantKind(t, "one ID twice", err, node.Invalid)
	bad := record(volume("3-1", time.Now(), time.Hour), "running")
	_, err = s.Write(one, bad)
	wantKind(t, "one that is fine, and one that isn't", err, node.Invalid)
	if all, _ := s.List(); len(all) != 0 {
		t.Errorf("records %s, want none", ids(all))
	}
	dismissed := answered(record(&replay, store.Dismissed), store.Dismissed, workload.StateError)
	if _, err := s.Write(dismissed, one); err != nil {
		t.Errorf("a dismissed one has no claim to the hash: %v", err)
	}
	// Nor does it claim its ID: another reservation may come under it.
	other := record(volume("2-1", time.Now(), time.Hour), store.Intent)
	if _, err := s.Write(other); err != nil {
		t.Errorf("a dismissed one has no claim to the ID: %v", err)
	}
	// A Dismissed record doesn't replace another one.
	dismissed.Result.Sequence = 0
	_, err = s.Write(dismissed)
	wantKind(t, "a dismissed one in the place of a record", err, node.Exist)
}

// A batch that fails at one of its files changes nothing, on the disk or in memory.
func TestABatchFailsAsAWhole(t *testing.T) {
	root := fastDir(t)
	armed := false
	s := open(t, store.Config{Root: root, Hook: func(p atomicfile.Point) error {
		if armed && p.Op == atomicfile.Sync && p.Path == root+"/.tmp-2-1" {
			return unix.EIO
		}
		return nil
	}})
	old := finish(t, s, record(volume("1-1", time.Now(), time.Hour), store.Intent))
	armed = true
	changed := old
	changed.Phase = store.Deployed
	_, err := s.Write(changed, record(volume("2-1", time.Now(), time.Hour), store.Intent))
	if !errors.Is(err, unix.EIO) {
		t.Errorf("the error is %v", err)
	}
	for range 2 {
		all, err := s.List()
		if err != nil || len(all) != 1 || all[0].Phase != store.Intent {
			t.Errorf("records %s, %v", ids(all), err)
		}
		s.Close()
		s = open(t, store.Config{Root: root})
	}
}

// A Dismissed record lives until its result is delivered, and no longer.
func TestDismissed(t *testing.T) {
	root := fastDir(t)
	s := open(t, store.Config{Root: root})
	r := record(volume("1-1", time.Now(), time.Hour), store.Waiting)
	waits := finish(t, s, answered(r, store.Waiting, workload.StateDeleted))
	if err := s.Acknowledge(store.Receipt{ID: "1-1", Sequence: waits.Result.Sequence}); err != nil {
		t.Fatal(err)
	}
	// The result is delivered already: the caller's copy doesn't know it yet.
	dismissed := waits
	dismissed.Phase = store.Dismissed
	finish(t, s, dismissed)
	_, err := s.Record("1-1")
	wantKind(t, "dismissed with a delivered answer", err, node.NotExist)
	finish(t, s, record(r.Reservation, store.Dismissed))
	_, err = s.Record("1-1")
	wantKind(t, "dismissed without an answer", err, node.NotExist)

	owed := finish(t, s, answered(r, store.Dismissed, workload.StateError))
	s.Close()
	s = open(t, store.Config{Root: root})
	if left, _ := s.Undelivered(); ids(left) != "1-1" {
		t.Errorf("owed after a restart: %s", ids(left))
	}
	// A crash may leave a delivered one.
	s.Close()
	owed.Delivered = true
	file, err := store.Encode(owed)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, root+"/1-1", file)
	for range 2 {
		s = open(t, store.Config{Root: root})
		if all, _ := s.List(); len(all) != 0 {
			t.Errorf("after a crash: %s", ids(all))
		}
		s.Close()
	}
}
