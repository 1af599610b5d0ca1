package store_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/store"
	"github.com/croft-edge/croft/provision/store/durable"
)

// ill is a disk that fails to read one name or to list one folder.
type ill struct {
	durable.Provider
	name   string
	folder string
	lists  bool
	cause  error
	// changes are the changes made nevertheless.
	changes []string
}

func (d *ill) Get(name string) ([]byte, error) {
	if name == d.name {
		return nil, node.WithKind(node.Internal, d.cause)
	}
	return d.Provider.Get(name)
}

func (d *ill) List(folder string) ([]string, error) {
	if d.lists && folder == d.folder {
		return nil, node.WithKind(node.Internal, d.cause)
	}
	return d.Provider.List(folder)
}

func (d *ill) Put(objects ...durable.Object) error {
	for _, o := range objects {
		d.changes = append(d.changes, "put "+o.Name)
	}
	return d.Provider.Put(objects...)
}

func (d *ill) Delete(names ...string) error {
	d.changes = append(d.changes, names...)
	return d.Provider.Delete(names...)
}

func (d *ill) Move(from, to string) error {
	d.changes = append(d.changes, "move "+from)
	return d.Provider.Move(from, to)
}

// full makes a store with every kind of file, and damage that isn't set aside yet.
func full(t *testing.T) (root, birth string) {
	t.Helper()
	root = fastDir(t)
	s := lived(t, root, newDisk(), life())
	for _, id := range []string{"61-1", "62-1"} {
		finish(t, s, answered(record(volume(id, time.Now(), time.Hour), store.Intent), store.Deployed, workload.StateOK))
	}
	birth = s.Birth().ID
	s.Close()
	damage(t, root, "61-1")
	reopened(t, root).Close() // sets it aside
	damage(t, root, "62-1")
	return root, birth
}

// A file that can't be read at one start isn't damaged: the store isn't opened, nothing is
// moved or written, and all is there once the file can be read again.
func TestUnreadableRecordIsNotDamaged(t *testing.T) {
	root, birth := full(t)
	var names []string
	for _, path := range listing(t, root) {
		name, err := filepath.Rel(root, path)
		if err != nil {
			t.Fatal(err)
		}
		if durable.CheckName(name) == nil && name != "lock" && name != "quarantine/61-1" && strings.Count(name, "/") < 2 && !isFolder(t, path) {
			names = append(names, name)
		}
	}
	for _, name := range []string{"1-1", "meta/birth", "meta/cursor", "meta/clock", "quarantine/61-1.cause"} {
		if !strings.Contains(" "+strings.Join(names, " ")+" ", " "+name+" ") {
			t.Fatalf("the store has no %s: %v", name, names)
		}
	}
	for _, cause := range []error{unix.EIO, unix.EACCES} {
		for _, name := range names {
			staysClosed(t, root, name, &ill{name: name, cause: cause})
		}
		for _, folder := range []string{"", "networks", "quarantine"} {
			staysClosed(t, root, "folder", &ill{folder: folder, lists: true, cause: cause})
		}
	}
	s := reopened(t, root)
	if q := s.Quarantined(); len(q) != 2 {
		t.Errorf("set aside are %v, want what is damaged", q)
	}
	if _, err := s.Record("1-1"); err != nil || s.Birth().ID != birth {
		t.Errorf("%v, birth %s, want %s", err, s.Birth().ID, birth)
	}
}

func staysClosed(t *testing.T, root, name string, disk *ill) {
	t.Helper()
	before := content(t, root)
	_, err := store.OpenOn(store.Config{Root: root, NewNode: true}, func() (durable.Provider, error) {
		p, err := durable.OpenFS(root, nil)
		disk.Provider = p
		return disk, err
	})
	if node.KindOf(err) != node.Transient || !errors.Is(err, disk.cause) || !strings.Contains(err.Error(), name) {
		t.Errorf("%s: %v: opening says %v (%s)", name, disk.cause, err, node.KindOf(err))
	}
	if len(disk.changes) > 0 {
		t.Errorf("%s: %v: changed %v", name, disk.cause, disk.changes)
	}
	if after := content(t, root); after != before {
		t.Errorf("%s: %v: the folder was changed", name, disk.cause)
	}
}

// The birth is written before the first record: without it half of the store is missing,
// and a new birth would refuse reservations that the node has accepted.
func TestALostBirthIsNotMadeAnew(t *testing.T) {
	root := three(t)
	birth := filepath.Join(root, "meta", "birth")
	kept := readFile(t, birth)
	removeFile(t, birth)
	before := content(t, root)
	_, err := store.Open(store.Config{Root: root, NewNode: true})
	wantKind(t, "a store without its birth", err, node.Refused)
	if err == nil || !strings.Contains(err.Error(), "meta/birth") {
		t.Errorf("the error doesn't say what is missing: %v", err)
	}
	if content(t, root) != before {
		t.Error("the folder was changed")
	}
	writeFile(t, birth, kept)
	s := open(t, store.Config{Root: root})
	id := s.Birth().ID
	if all, _ := s.List(); ids(all) != "1-1 2-1 3-1" || id == "" {
		t.Errorf("put back: records %s, birth %q", ids(all), id)
	}
	s.Close()
	writeFile(t, birth, nil)
	s = open(t, store.Config{Root: root, NewNode: true})
	if s.Birth().ID == id || s.AcceptsOlder() {
		t.Errorf("with an empty one: birth %q, accepts older %v", s.Birth().ID, s.AcceptsOlder())
	}
	last, err := s.Record("3-1")
	if err != nil {
		t.Fatal(err)
	}
	if next := finish(t, s, answered(record(volume("4-1", time.Now(), time.Hour), store.Intent), store.Deployed, workload.StateOK)); next.Result.Sequence <= last.Result.Sequence {
		t.Errorf("number %d after %d", next.Result.Sequence, last.Result.Sequence)
	}
}

// The process dies between setting a damaged birth aside and making a new one.
func TestDyingBetweenTwoBirths(t *testing.T) {
	for n := 0; ; n++ {
		root := three(t)
		damage(t, root, "meta/birth")
		disk := newDisk()
		disk.DieAt(n)
		if s, err := store.Open(store.Config{Root: root, NewNode: true, Hook: disk.Hook}); err == nil {
			s.Close()
		}
		if disk.Fired().Op == "" {
			break
		}
		s := open(t, store.Config{Root: root, NewNode: true})
		if all, _ := s.List(); ids(all) != "1-1 2-1 3-1" || s.Birth().ID == "" || s.AcceptsOlder() {
			t.Errorf("died at %v: records %s, birth %v, accepts older %v", disk.Fired(), ids(all), s.Birth(), s.AcceptsOlder())
		}
		s.Close()
	}
}
