package nodestate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/loop"
	"github.com/croft-edge/croft/pkg/node"
)

const diskSize = 256 << 20

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// attached is an empty disk, and the file that it lies in.
func attached(t *testing.T) (device, file string) {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "croft-nodestate-")
	check(t, err)
	t.Cleanup(func() { check(t, os.RemoveAll(dir)) })
	file = filepath.Join(dir, "disk")
	check(t, os.WriteFile(file, nil, 0o600))
	check(t, os.Truncate(file, diskSize))
	d, err := loop.Attach(t.Context(), file)
	check(t, err)
	t.Cleanup(func() { check(t, d.Close()) })
	return d.Path(), file
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %s %v", name, out, err)
	}
}

// TestLookAll: the disks are looked at beside each other, and found in their order.
func TestLookAll(t *testing.T) {
	var disks []string
	var want []Kind
	add := func(disk string, kind Kind) { disks, want = append(disks, disk), append(want, kind) }
	for i := range 4 {
		empty, _ := attached(t)
		add(empty, Empty)
		pool, _ := attached(t)
		run(t, "mkfs.btrfs", "-q", "-L", fmt.Sprintf("croft-ssd-%d", i), pool)
		add(pool, Unfinished)
		other, _ := attached(t)
		run(t, "mkfs.ext4", "-q", other)
		add(other, Other)
		add(fmt.Sprintf("/dev/none%d", i), Unknown)
	}
	link := filepath.Join(t.TempDir(), "link")
	check(t, os.Symlink(disks[0], link))
	add(link, Empty) // by two names at a time
	add(disks[0], Empty)
	source, copied := disks[1], ""
	copied, _ = attached(t)
	run(t, "dd", "if="+source, "of="+copied, "bs=1M", "conv=fsync,sparse")
	add(copied, Copy)
	want[1] = Copy
	for range 3 {
		for i, f := range LookAll(t.Context(), disks, t.TempDir()) {
			if f.Disk != disks[i] || f.Kind != want[i] {
				t.Errorf("disk %d, %s, is %+v, want %s", i, disks[i], f, want[i])
			}
		}
	}
}

// TestADiskWithABadSector: it doesn't keep the node from being made on another disk, or on itself when the operator says so.
func TestADiskWithABadSector(t *testing.T) {
	empty, _ := attached(t)
	bad, file := attached(t)
	// A loop device can't be read where its file has ended.
	check(t, os.Truncate(file, diskSize-64<<10))
	found := LookAll(t.Context(), []string{bad, empty}, t.TempDir())
	if found[0].Kind != Other || found[0].What != fmt.Sprintf("data that can't be read at byte %d", diskSize-64<<10) || !found[0].Passing || found[1].Kind != Empty || found[1].Passing {
		t.Fatalf("it is %+v", found)
	}
	for name, c := range map[string]struct {
		found []Found
		want  Want
		index int
	}{
		"another disk":     {found, Want{Make: true}, 1},
		"may be wiped":     {found, Want{Make: true, Wipe: []string{bad}}, 0},
		"alone, and wiped": {found[:1], Want{Make: true, Wipe: []string{bad}}, 0},
	} {
		if i, err := Choose(c.found, c.want); i != c.index || err != nil {
			t.Errorf("%s: %d is chosen, %v, want %d", name, i, err, c.index)
		}
	}
	if i, err := Choose(found[:1], Want{Make: true}); !errors.Is(err, node.Refused) || !strings.Contains(err.Error(), "--wipe-disk") {
		t.Errorf("alone it is chosen: %d, %v", i, err)
	}
}

func TestBeside(t *testing.T) {
	for _, count := range []int{0, 1, atOnce, 3 * atOnce} {
		var now, most, done atomic.Int32
		var full sync.WaitGroup
		full.Add(min(count, atOnce))
		beside(count, func(i int) {
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			if i < atOnce {
				full.Done()
				full.Wait() // for as many as run at a time
			}
			done.Add(1)
			now.Add(-1)
		})
		if int(done.Load()) != count || int(most.Load()) > atOnce {
			t.Errorf("of %d %d were done, %d at a time", count, done.Load(), most.Load())
		}
	}
}

// TestASlowDisk: one that can't be read in time isn't waited for, nor taken for an empty one.
func TestASlowDisk(t *testing.T) {
	disk, _ := attached(t)
	for limit, want := range map[time.Duration]Kind{time.Nanosecond: Other, time.Minute: Empty} {
		f := super(disk).others(t.Context(), limit)
		if f.Kind != want || f.Passing != (want == Other) {
			t.Errorf("within %s it is %+v, want %s", limit, f, want)
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if f := super(disk).others(over, time.Minute); f.Kind != Unknown {
		t.Errorf("when it is over it is %+v", f)
	}
}
