package btrfs

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

func TestQuota(t *testing.T) {
	for _, kind := range kinds(t) {
		t.Run(string(kind), func(t *testing.T) {
			m := mounted(t, 512<<20)
			f := opened(t, m)
			state, err := f.Quota()
			check(t, err)
			if state != (QuotaState{}) {
				t.Errorf("before it is %+v", state)
			}
			check(t, f.EnableQuota(kind))
			if state, err = f.Quota(); err != nil || state.Kind != kind {
				t.Errorf("the state is %+v (%v)", state, err)
			}
			check(t, CreateSubvolume(m, "a"))
			id, err := SubvolumeID(filepath.Join(m, "a"))
			check(t, err)
			check(t, f.Limit(id, 8<<20))
			n, err := fill(t, filepath.Join(m, "a", "data"), 32<<20)
			if !errors.Is(err, unix.EDQUOT) || n < 6<<20 || n > 8<<20 {
				t.Errorf("%d bytes could be written (%v)", n, err)
			}
			check(t, f.Sync())
			g, err := f.ReadGroup(id)
			check(t, err)
			if g.ID != id || g.Max != 8<<20 || g.Used < 6<<20 || g.Used > 8<<20 {
				t.Errorf("the group is %+v", g)
			}
			check(t, f.Limit(id, math.MaxUint64))
			if g, err = f.ReadGroup(id); err != nil || g.Max != 0 {
				t.Errorf("without a limit the group is %+v (%v)", g, err)
			}
			if _, err = fill(t, filepath.Join(m, "a", "data"), 32<<20); err != nil {
				t.Errorf("without a limit writing gives %v", err)
			}
		})
	}
}

// TestFamily wants what nobody nests in a subvolume to count for the group
// above it, with simple quotas; with qgroups it doesn't, which docs/storage.md
// tells.
func TestFamily(t *testing.T) {
	for _, kind := range kinds(t) {
		t.Run(string(kind), func(t *testing.T) {
			m := mounted(t, 512<<20)
			f := opened(t, m)
			check(t, f.EnableQuota(kind))
			id := family(t, f, m, 8<<20)
			check(t, os.Chmod(filepath.Join(m, "a"), 0o777))
			dir, err := os.Open(filepath.Join(m, "a"))
			check(t, err)
			defer dir.Close()
			check(t, asNobody(t, func() error { return createIn(dir, "nested") }))
			n, err := fill(t, filepath.Join(m, "a", "nested", "data"), 16<<20)
			if limited := errors.Is(err, unix.EDQUOT) && n <= 8<<20; limited != (kind == Simple) {
				t.Errorf("%d bytes could be written to the nested one (%v)", n, err)
			}
			if err := f.RemoveGroup(GroupID(1, id)); !errors.Is(err, node.Busy) {
				t.Errorf("removing a group with members gives %v", err)
			}
			// A full group prevents the destruction of nested subvolumes.
			check(t, f.Limit(GroupID(1, id), math.MaxUint64))
			check(t, f.Destroy(id))
		})
	}
}

// family makes subvolume a with a limited group above its own, twice.
func family(t *testing.T, f *FS, mount string, limit uint64) uint64 {
	t.Helper()
	check(t, CreateSubvolume(mount, "a"))
	id, err := SubvolumeID(filepath.Join(mount, "a"))
	check(t, err)
	group := GroupID(1, id)
	if GroupLevel(group) != 1 || GroupNumber(group) != id {
		t.Errorf("the group is %d/%d", GroupLevel(group), GroupNumber(group))
	}
	for range 2 {
		check(t, f.CreateGroup(group))
		check(t, f.Join(id, group))
		check(t, f.Limit(group, limit))
	}
	members, err := f.Members(group)
	check(t, err)
	if len(members) != 1 || members[0] != id {
		t.Errorf("in the group are %v", members)
	}
	return id
}

func TestMissingGroups(t *testing.T) {
	f := opened(t, mounted(t, 512<<20))
	if _, err := f.ReadGroup(300); !errors.Is(err, node.NotExist) {
		t.Errorf("without quotas reading a group gives %v", err)
	}
	check(t, f.EnableQuota(Qgroup))
	if _, err := f.ReadGroup(300); !errors.Is(err, node.NotExist) {
		t.Errorf("reading a group gives %v", err)
	}
	if err := f.RemoveGroup(300); !errors.Is(err, node.NotExist) {
		t.Errorf("removing a group gives %v", err)
	}
	if err := f.Limit(300, 1<<20); !errors.Is(err, node.NotExist) {
		t.Errorf("limiting a group gives %v", err)
	}
	check(t, f.Rescan())
}

func TestKindOf(t *testing.T) {
	kinds := map[error]node.Kind{
		unix.ENOSPC: node.NoSpace, unix.EDQUOT: node.NoSpace, unix.EEXIST: node.Exist, unix.ENOENT: node.NotExist,
		unix.EBUSY: node.Busy, unix.EIO: node.Transient, unix.EROFS: node.Transient, unix.ENOMEM: node.Transient,
		unix.EINVAL: node.Invalid, unix.EPERM: node.Internal, errors.New("x"): node.Internal,
		node.Errorf(node.Refused, "x"): node.Refused,
	}
	for err, want := range kinds {
		if got := KindOf(err); got != want {
			t.Errorf("%v is of kind %s, want %s", err, got, want)
		}
		wrapped := Wrap(fmt.Errorf("in between: %w", err), "cannot do %s", "it")
		if node.KindOf(wrapped) != want || !errors.Is(wrapped, err) {
			t.Errorf("wrapped it is %v of kind %s, want %s", wrapped, node.KindOf(wrapped), want)
		}
	}
	if err := Wrap(nil, "cannot"); err != nil {
		t.Errorf("nothing becomes %v", err)
	}
	err := Wrap(&os.PathError{Op: "open", Path: "/p", Err: unix.ENOENT}, "cannot open /p")
	if err.Error() != "cannot open /p: no such file or directory" {
		t.Errorf("the path is told twice: %v", err)
	}
}
