package vouched_test

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/netlab"
	"github.com/croft-edge/croft/modules/network/events"
	"github.com/croft-edge/croft/modules/network/vouched"
)

// told is what a book has told.
type told struct {
	mu   sync.Mutex
	ids  []string
	lost int
}

func (t *told) tell(ids ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ids = append(t.ids, ids...)
}

func (t *told) lose() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lost++
}

func (t *told) take() (ids []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	ids, t.ids = t.ids, nil
	return ids
}

// shelf is a book with the network "a" of reservation 1-1, with one member, and its
// namespaces' IDs.
func shelf(t *testing.T) (b *vouched.Book, out *told, p vouched.Places, inner, member int) {
	t.Helper()
	lab := netlab.New(t)
	in, theirs := lab.Namespace("net"), lab.Namespace("member")
	p = vouched.Places{
		Namespaces: []string{in.Path(), theirs.Path()}, Outside: []string{"cru1"}, Owner: "1-1", Ports: map[string]string{"t3": "5-1"},
	}
	var err error
	if inner, err = events.IDOf(in.Path()); err != nil {
		t.Fatal(err)
	}
	if member, err = events.IDOf(theirs.Path()); err != nil {
		t.Fatal(err)
	}
	out = &told{}
	return vouched.New(out.tell, out.lose), out, p, inner, member
}

// keep has the network looked at and found as it should be.
func keep(t *testing.T, b *vouched.Book, p vouched.Places) {
	t.Helper()
	m, ok := b.Watch("a", p)
	if !ok {
		t.Fatal("it can't be watched")
	}
	b.Keep("a", m)
	if !b.Fine("a") {
		t.Fatal("it isn't vouched for")
	}
}

func TestOnlyAnUnbrokenStreamVouches(t *testing.T) {
	b, out, p, _, _ := shelf(t)
	if m, ok := b.Watch("a", p); ok {
		t.Error("before anything is heard it may be kept")
	} else if b.Keep("a", m); b.Fine("a") {
		t.Error("before anything is heard it is vouched for")
	}
	b.Began()
	keep(t, b, p)
	m, _ := b.Watch("a", p)
	b.Lost()
	if b.Fine("a") || out.lost != 1 {
		t.Errorf("after a loss it is vouched for: %t, told %d times", b.Fine("a"), out.lost)
	}
	b.Began()
	if b.Keep("a", m); b.Fine("a") {
		t.Error("a look from before a loss vouches")
	}
	keep(t, b, p)
	b.Drop("a")
	if b.Fine("a") {
		t.Error("what is gone is vouched for")
	}
}

func TestEachPlaceIsTheNetworks(t *testing.T) {
	b, out, p, inner, member := shelf(t)
	b.Began()
	for _, c := range []struct {
		event events.Event
		want  []string
	}{
		{events.Event{Namespace: inner, Link: "br0"}, []string{"1-1"}},
		{events.Event{Namespace: inner, Link: "t3"}, []string{"1-1", "5-1"}},
		{events.Event{Namespace: inner}, []string{"1-1"}},
		{events.Event{Namespace: member, Link: "t3"}, []string{"1-1"}},
		{events.Event{Namespace: events.Own, Link: "cru1"}, []string{"1-1"}},
		{events.Event{Namespace: inner, Ended: true}, []string{"1-1"}},
		{events.Event{Namespace: events.Own, Link: "cru2"}, nil},
		{events.Event{Namespace: 1 << 30}, nil},
		{events.Event{Namespace: events.Own, Link: ""}, nil},
	} {
		keep(t, b, p)
		m, _ := b.Watch("a", p)
		b.Changed(c.event)
		if got := out.take(); !slices.Equal(got, c.want) {
			t.Errorf("%+v: told are %v, want %v", c.event, got, c.want)
		}
		b.Keep("a", m) // of a look that began before it
		if b.Fine("a") != (c.want == nil) {
			t.Errorf("%+v: it is vouched for: %t", c.event, b.Fine("a"))
		}
	}
	keep(t, b, p)
	b.Changing("a")
	if b.Fine("a") || len(out.take()) != 0 {
		t.Error("the module's own change is told, or not noted")
	}
}

func TestUnwatchablePlaces(t *testing.T) {
	b, _, p, _, _ := shelf(t)
	b.Began()
	gone := p
	gone.Namespaces = append(slices.Clone(p.Namespaces), "/nowhere")
	if _, ok := b.Watch("a", gone); ok {
		t.Error("a namespace is missing, and it may be kept")
	}
	keep(t, b, p)
	if _, ok := b.Watch("b", p); ok {
		t.Error("another network has the same namespaces, and may be kept")
	}
	if !b.Outside("cru1") || b.Outside("cru2") {
		t.Error("the links outside aren't those that are watched")
	}
}

func TestALostNamespaceIsTold(t *testing.T) {
	b, out, p, _, _ := shelf(t)
	path := filepath.Join(t.TempDir(), "ns")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(p.Namespaces[0], path, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
	p.Namespaces = []string{path, p.Namespaces[1]}
	b.Began()
	keep(t, b, p)
	if b.Mounts(); len(out.take()) != 0 || !b.Fine("a") {
		t.Error("nothing is gone, and it is told")
	}
	if err := unix.Unmount(path, 0); err != nil {
		t.Fatal(err)
	}
	for _, want := range [][]string{{"1-1"}, nil} { // once
		if b.Mounts(); !slices.Equal(out.take(), want) || b.Fine("a") {
			t.Errorf("told isn't %v, or it is still vouched for", want)
		}
	}
}
