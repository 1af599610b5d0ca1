package zdb_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/provisioner/zdb"
)

// home is a Home without a reservation.
func home(container string) zdb.Home { return zdb.Home{Container: container} }

// The node dies after each call in turn. The next provision completes the
// workload, a decommission removes all of it.
func TestDyingAfterEachCall(t *testing.T) {
	whole := newWorld(t)
	want := whole.provision("2-1", aNamespace(""))
	for n := 1; n < len(whole.Changes()); n++ {
		for _, end := range []string{"provision", "decommission", "provision after a reboot", "decommission after a reboot"} {
			f := newWorld(t)
			r := f.reservation("2-1", aNamespace(""))
			f.Die(n)
			if _, err := f.provisioner().Provision(context.Background(), r); err == nil {
				t.Fatalf("it didn't notice that the node died after %d calls", n)
			}
			f.Revive()
			if strings.HasSuffix(end, "reboot") {
				f.Containers.Reboot()
			}
			if strings.HasPrefix(end, "decommission") {
				if err := f.provisioner().Decommission(context.Background(), r); err != nil || len(f.left()) != 0 {
					t.Errorf("after %d calls (%v): %s says %v, left %v", n, f.Changes()[:n], end, err, f.left())
				}
				continue
			}
			got, err := f.provisioner().Provision(context.Background(), r)
			if err != nil || string(got) != want || !slices.Equal(f.left(), whole.left()) {
				t.Errorf("after %d calls (%v): %s gives %s, %v, on the node %v", n, f.Changes()[:n], end, got, err, f.left())
			}
		}
	}
}

func TestDyingInDecommission(t *testing.T) {
	for _, others := range []int{0, 1} {
		made := func() *world {
			f := newWorld(t)
			f.provision("2-1", aNamespace(""))
			for range others {
				f.provision("3-1", aNamespace(""))
			}
			f.Forget()
			return f
		}
		whole := made()
		whole.decommission("2-1", aNamespace(""))
		for n := 1; n < len(whole.Changes()); n++ {
			for _, reboots := range []bool{false, true} {
				f := made()
				r := f.reservation("2-1", aNamespace(""))
				f.Die(n)
				if err := f.provisioner().Decommission(context.Background(), r); err == nil {
					t.Fatalf("it didn't notice that the node died after %d calls", n)
				}
				f.Revive()
				if reboots {
					f.Containers.Reboot()
				}
				if err := f.provisioner().Decommission(context.Background(), r); err != nil || !slices.Equal(f.left(), whole.left()) {
					t.Errorf("after %d calls (%v), reboot %t: %v, left %v", n, f.Changes()[:n], reboots, err, f.left())
				}
			}
		}
	}
}

// Every call may fail. The failed attempt leaves nothing but, if it will be retried,
// the image for the next attempt.
func TestEachCallFails(t *testing.T) {
	whole := newWorld(t)
	whole.provision("2-1", aNamespace(""))
	for _, call := range whole.Changes() {
		for _, kind := range []node.Kind{node.NoSpace, node.Busy, node.Transient, node.Unknown, node.Internal} {
			f := newWorld(t)
			f.FailCall(call, node.Errorf(kind, "it fails"))
			_, err := f.provisioner().Provision(context.Background(), f.reservation("2-1", aNamespace("")))
			left := slices.DeleteFunc(f.left(), func(s string) bool { return !kind.Final() && s == "image zdb-ssd0-user" })
			if node.KindOf(err) != kind || len(left) != 0 {
				t.Errorf("%s fails with %s: error is %v, left %v", call, kind, err, left)
			}
			f.FailCall(call, nil)
			f.decommission("2-1", aNamespace(""))
			f.wantLeft()
		}
	}
	for _, call := range []string{"ZDB.Detach", "Containers.Delete", "Storage.ReleaseFilesystem", "Images.Release", "ZDB.Delete"} {
		f := newWorld(t)
		f.provision("2-1", aNamespace(""))
		f.Fail(call, node.Errorf(node.Transient, "it fails"))
		if err := f.provisioner().Decommission(context.Background(), f.reservation("2-1", aNamespace(""))); node.KindOf(err) != node.Transient {
			t.Errorf("%s fails: error is %v", call, err)
		}
		f.Fail(call, nil)
		f.decommission("2-1", aNamespace(""))
		f.wantLeft()
	}
}

// A failed rollback makes the error Unknown, which is retried.
func TestFailedUndo(t *testing.T) {
	f := newWorld(t)
	f.Fail("Containers.Start", node.Errorf(node.Invalid, "exec format error"))
	f.Fail("Storage.ReleaseFilesystem", node.Errorf(node.Transient, "silent"))
	_, err := f.provisioner().Provision(context.Background(), f.reservation("2-1", aNamespace("")))
	if node.KindOf(err) != node.Unknown || !strings.Contains(err.Error(), "exec format error") {
		t.Errorf("error is %v", err)
	}
}

func TestAnOrphanIsTakenDownByItsLabelAlone(t *testing.T) {
	for _, others := range []bool{false, true} {
		f := newWorld(t)
		f.provision("2-1", aNamespace(""))
		if others {
			f.provision("3-1", aNamespace(""))
		}
		delete(f.homes, "2-1")
		err := f.provisioner().Remove(context.Background(), provisioner.LabelOf("2-1", f.hash(aNamespace(""))))
		left := f.left()
		if err != nil || slices.Contains(left, "namespace zdb-ssd0-user/2-1") || len(left) > 0 != others {
			t.Errorf("decommission: %v, left %v", err, left)
		}
	}
}

// A zdb container that can't be listed isn't taken for empty.
func TestDataIsNotTakenForRubbish(t *testing.T) {
	f := newWorld(t)
	f.provision("2-1", aNamespace(""))
	f.provision("5-1", strings.Replace(aNamespace(""), "SSD", "HDD", 1))
	clear(f.homes) // the records are lost
	f.Containers.Reboot()
	f.ZDB.Silence(1000)
	f.decommission("9-1", strings.Replace(aNamespace(""), "user", "seq", 1))
	for _, want := range []string{"namespace zdb-ssd0-user/2-1", "namespace zdb-hdd0-user/5-1"} {
		if !slices.Contains(f.left(), want) {
			t.Errorf("%s is gone", want)
		}
	}
	f.ZDB.Silence(0)
	f.decommission("9-1", strings.Replace(aNamespace(""), "user", "seq", 1))
	if left := f.left(); !slices.Contains(left, "namespace zdb-ssd0-user/2-1") || !slices.Contains(left, "namespace zdb-hdd0-user/5-1") {
		t.Errorf("left %q", left)
	}
}

func TestADeletionWaitsForItsPool(t *testing.T) {
	for _, known := range []bool{true, false} {
		f := newWorld(t)
		f.provision("2-1", aNamespace(""))
		if !known {
			delete(f.homes, "2-1")
			f.was["2-1"] = true
		}
		f.Storage.Break("ssd0", "read-only")
		if err := f.provisioner().Decommission(context.Background(), f.reservation("2-1", aNamespace(""))); node.KindOf(err) != node.Transient {
			t.Errorf("known %t: error is %v", known, err)
		}
		f.Storage.Break("ssd0", "")
		f.decommission("2-1", aNamespace(""))
		f.wantLeft()
	}
}

func TestADeletionWaitsForItsZDB(t *testing.T) {
	f := newWorld(t)
	f.provision("2-1", aNamespace(""))
	f.Containers.Reboot()
	f.ZDB.Silence(1000)
	if err := f.provisioner().Decommission(context.Background(), f.reservation("2-1", aNamespace(""))); node.KindOf(err) != node.Transient {
		t.Errorf("error is %v", err)
	}
	if !slices.Contains(f.left(), "namespace zdb-ssd0-user/2-1") {
		t.Errorf("left %q", f.left())
	}
	f.ZDB.Silence(0)
	f.decommission("2-1", aNamespace(""))
	f.wantLeft()
}
