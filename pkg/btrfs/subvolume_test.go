package btrfs

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

func TestSubvolume(t *testing.T) {
	m := mounted(t, 512<<20)
	f := opened(t, m)
	check(t, CreateSubvolume(m, "a"))
	if err := CreateSubvolume(m, "a"); !errors.Is(err, node.Exist) {
		t.Errorf("the second time it is %v", err)
	}
	id, err := SubvolumeID(filepath.Join(m, "a"))
	check(t, err)
	if id < firstFree {
		t.Errorf("its ID is %d", id)
	}
	check(t, f.Destroy(id))
	if _, err := os.Lstat(filepath.Join(m, "a")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	if err := f.Destroy(id); !errors.Is(err, node.NotExist) {
		t.Errorf("destroyed twice it is %v", err)
	}
}

func TestBadSubvolumes(t *testing.T) {
	m := mounted(t, 512<<20)
	for _, name := range []string{"", strings.Repeat("x", 5000)} {
		if err := CreateSubvolume(m, name); !errors.Is(err, node.Invalid) {
			t.Errorf("a name of %d bytes gives %v", len(name), err)
		}
	}
	if err := CreateSubvolume(filepath.Join(m, "none"), "a"); !errors.Is(err, node.NotExist) {
		t.Errorf("in a folder that isn't there: %v", err)
	}
	check(t, os.Mkdir(filepath.Join(m, "plain"), 0o700))
	check(t, os.Symlink(m, filepath.Join(m, "link")))
	for name, kind := range map[string]node.Kind{"plain": node.Invalid, "none": node.NotExist, "link": node.Internal} {
		if _, err := SubvolumeID(filepath.Join(m, name)); node.KindOf(err) != kind {
			t.Errorf("the ID of %s is of kind %s (%v), want %s", name, node.KindOf(err), err, kind)
		}
	}
}

// TestNested destroys a tree of subvolumes, made in part by somebody without
// any privilege.
func TestNested(t *testing.T) {
	m := mounted(t, 512<<20)
	f := opened(t, m)
	check(t, CreateSubvolume(m, "a"))
	check(t, CreateSubvolume(m, "b"))
	check(t, CreateSubvolume(filepath.Join(m, "a"), "x"))
	check(t, os.Mkdir(filepath.Join(m, "a", "x", "folder"), 0o700))
	check(t, CreateSubvolume(filepath.Join(m, "a", "x", "folder"), "deep"))
	check(t, os.Chmod(filepath.Join(m, "a"), 0o777))
	dir, err := os.Open(filepath.Join(m, "a"))
	check(t, err)
	check(t, asNobody(t, func() error { return createIn(dir, "nobody's") }))
	check(t, dir.Close())
	id, err := SubvolumeID(filepath.Join(m, "a"))
	check(t, err)
	children, err := f.Children(id)
	check(t, err)
	if len(children) != 2 {
		t.Errorf("nested in it are %v", children)
	}
	check(t, f.Destroy(id))
	entries, err := os.ReadDir(m)
	check(t, err)
	if len(entries) != 1 || entries[0].Name() != "b" {
		t.Errorf("left are %v", entries)
	}
}

// TestThousand wants a list that needs many searches to be whole.
func TestThousand(t *testing.T) {
	m := mounted(t, 512<<20)
	f := opened(t, m)
	check(t, f.EnableQuota(kinds(t)[0]))
	ids := map[uint64]bool{}
	for i := range 1000 {
		name := strconv.Itoa(i)
		check(t, CreateSubvolume(m, name))
		id, err := SubvolumeID(filepath.Join(m, name))
		check(t, err)
		ids[id] = true
	}
	found, err := f.Subvolumes()
	check(t, err)
	groups, err := f.Groups()
	check(t, err)
	for id := range ids {
		if !found[id] || groups[id] == nil {
			t.Fatalf("subvolume %d is listed: %v, its group: %v", id, found[id], groups[id])
		}
	}
	if len(found) != len(ids) {
		t.Errorf("%d subvolumes are listed, want %d", len(found), len(ids))
	}
}

func TestOpen(t *testing.T) {
	if _, err := Open(t.TempDir()); !errors.Is(err, node.Transient) || !strings.Contains(err.Error(), "no btrfs is mounted") {
		t.Errorf("a plain folder gives %v", err)
	}
	if _, err := Open("/nowhere/at/all"); !errors.Is(err, node.NotExist) {
		t.Errorf("nothing gives %v", err)
	}
	f := opened(t, mounted(t, 512<<20))
	space, err := f.Space()
	check(t, err)
	if space.Total != 512<<20 || space.Used == 0 || space.Used > 64<<20 || space.ReadOnly {
		t.Errorf("the space is %+v", space)
	}
	check(t, f.Sync())
}

func TestReadOnly(t *testing.T) {
	m := mounted(t, 512<<20)
	check(t, CreateSubvolume(m, "a"))
	check(t, unix.Mount("", m, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	f := opened(t, m)
	if space, err := f.Space(); err != nil || !space.ReadOnly {
		t.Errorf("the space is %+v (%v)", space, err)
	}
	if err := CreateSubvolume(m, "b"); !errors.Is(err, node.Transient) {
		t.Errorf("making one gives %v", err)
	}
	id, err := SubvolumeID(filepath.Join(m, "a"))
	check(t, err)
	if err := f.Destroy(id); !errors.Is(err, node.Transient) {
		t.Errorf("destroying one gives %v", err)
	}
}

func TestReadSuper(t *testing.T) {
	m := mounted(t, 512<<20)
	f := opened(t, m)
	uuid, err := f.UUID()
	check(t, err)
	image := filepath.Join(filepath.Dir(m), "disk.img")
	super, err := ReadSuper(image)
	check(t, err)
	if super.UUID != uuid || super.Label != "" || len(uuid) != 36 {
		t.Errorf("the superblock is %+v, the file system's UUID %s", super, uuid)
	}
	empty := filepath.Join(t.TempDir(), "empty")
	for _, size := range []int64{0, 100, 70 << 10, 1 << 20} {
		check(t, os.WriteFile(empty, nil, 0o600))
		check(t, os.Truncate(empty, size))
		if _, err := ReadSuper(empty); !errors.Is(err, node.NotExist) {
			t.Errorf("%d zeros give %v", size, err)
		}
	}
	if _, err := ReadSuper(empty + "none"); !errors.Is(err, node.NotExist) {
		t.Errorf("no file gives %v", err)
	}
}
