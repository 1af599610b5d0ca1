package vm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/modules/vm/machine"
	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
)

// TestMostVMs: a user has at most their share of VMs, all users together the total, and no two VMs the same user ID, in any
// order of creations and deletions.
func TestMostVMs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		most := limit.Limit{Name: "test-vms", Per: "user", Each: 4, Total: 20}
		all := newTable(most)
		users, ids := map[string]int64{}, []string{}
		batch := rapid.IntRange(1, 12).Draw(t, "batch")
		for step := range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(ids) > 0 && rapid.IntRange(0, 3).Draw(t, "deletes") == 0 {
				for _, id := range ids[:rapid.IntRange(1, len(ids)).Draw(t, "how many")] {
					e, err := all.hold(t.Context(), id)
					if err != nil {
						t.Fatal(err)
					}
					users[e.record.Spec.User]--
					all.remove(e)
					all.release(e)
				}
				ids = idsOf(all)
			}
			user := fmt.Sprint("user", rapid.IntRange(0, 20).Draw(t, "user"))
			for i := range batch {
				id := fmt.Sprintf("%d-%d", step, i)
				e, err := all.hold(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				_, err = all.create(e, node.VMSpec{ID: id, User: user})
				full := users[user] >= most.Each || int64(len(ids)) >= most.Total
				if full != (node.KindOf(err) == node.NoSpace) || !full && err != nil {
					t.Fatalf("with %d VMs of the user and %d in all: %v", users[user], len(ids), err)
				}
				if err == nil {
					users[user]++
					ids = append(ids, id)
				}
				all.release(e)
			}
			seen := map[uint32]bool{}
			for _, r := range all.records() {
				if seen[r.UID] || r.UID < firstUID || r.UID >= firstUID+uint32(most.Total) {
					t.Fatalf("user ID %d of VM %s", r.UID, r.Spec.ID)
				}
				seen[r.UID] = true
			}
			if len(seen) != len(ids) {
				t.Fatalf("%d VMs, want %d", len(seen), len(ids))
			}
		}
	})
}

func idsOf(t *table) (out []string) {
	for _, r := range t.records() {
		out = append(out, r.Spec.ID)
	}
	return out
}

// TestTurns: of many operations on one VM only one runs at a time, also when the VM is made and removed by them; one that gives
// up leaves nothing.
func TestTurns(t *testing.T) {
	t.Parallel()
	all := newTable(vms)
	var work sync.WaitGroup
	inside := 0
	for i := range 8 {
		work.Go(func() {
			for j := range 200 {
				e, err := all.hold(context.Background(), "7-1")
				if err != nil {
					t.Error(err)
					return
				}
				if inside++; inside != 1 {
					t.Errorf("%d operations at once", inside)
				}
				if (i+j)%3 == 0 {
					all.remove(e)
				} else {
					all.set(e, machine.New(node.VMSpec{ID: "7-1"}, firstUID))
				}
				inside--
				all.release(e)
			}
		})
	}
	work.Wait()
	e, err := all.hold(t.Context(), "7-2")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := all.hold(ctx, "7-2"); node.KindOf(err) != node.Busy || !strings.Contains(err.Error(), "7-2") {
		t.Errorf("a second operation: %v", err)
	}
	all.release(e)
	if _, exists := all.read("7-2"); exists || len(all.all) > 1 {
		t.Errorf("entries are left: %v", all.all)
	}
}

// TestAttemptsOfAnID: the starts of one VM and of the next with its ID have different numbers, so that a late process of the
// first doesn't become the second.
func TestAttemptsOfAnID(t *testing.T) {
	t.Parallel()
	all, seen := newTable(vms), map[uint64]bool{}
	for range 100 {
		e, err := all.hold(t.Context(), "7-1")
		if err != nil {
			t.Fatal(err)
		}
		r, err := all.create(e, node.VMSpec{ID: "7-1", User: "user"})
		if err == nil {
			r, err = r.Begin("tcg")
		}
		if err != nil || seen[r.Attempt] {
			t.Fatalf("start %d, %v; earlier ones %v", r.Attempt, err, seen)
		}
		seen[r.Attempt] = true
		all.remove(e)
		all.release(e)
	}
}

// TestImageDrift: a VM that waits for its next start is reported when a file of its image is gone, so that it is run again
// with the present image. Its own disk isn't the image's.
func TestImageDrift(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, nil, 0o600))
		return path
	}
	spec := node.VMSpec{ID: "7-1", Kernel: file("kernel"), Initrd: file("initrd"), Disks: []node.VMDisk{{Path: file("data")}, {Path: file("root"), ReadOnly: true}}}
	waiting := machine.New(spec, firstUID)
	running := waiting
	running.Phase = machine.Running
	for _, name := range []string{"", "data", "kernel", "initrd", "root"} {
		if name != "" {
			must(t, os.Remove(filepath.Join(dir, name)))
		}
		want := ""
		if name != "" && name != "data" {
			want = "its image is gone: " + filepath.Join(dir, name)
		}
		if got := infoOf(waiting, "").Drift; got != want {
			t.Errorf("without %q a VM that waits differs by %q, want %q", name, got, want)
		}
		if got := infoOf(running, "").Drift; got != "" {
			t.Errorf("without %q a VM that runs differs by %q", name, got)
		}
		if name != "" {
			file(name)
		}
	}
	spec.Initrd = ""
	if got := infoOf(machine.New(spec, firstUID), "").Drift; got != "" {
		t.Errorf("a VM without an initrd differs by %q", got)
	}
}
